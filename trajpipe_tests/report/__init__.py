"""Tests of the pictures of datasets."""
