"""Tests that look at pages with a real browser."""
