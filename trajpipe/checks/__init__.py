"""Checks: rules that give findings; each reads with code that did not write its subject, and never writes."""

from trajpipe.checks.registry import (
    Check,
    CheckReport,
    CheckResult,
    Subject,
    check,
    checks_of,
    run_checks,
)

__all__ = ["Check", "CheckReport", "CheckResult", "Subject", "check", "checks_of", "run_checks"]
