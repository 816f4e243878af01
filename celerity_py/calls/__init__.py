# SPDX-License-Identifier: MIT
"""Calls of user functions: their arguments, and the checks around each call."""
