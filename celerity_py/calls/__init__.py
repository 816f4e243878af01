# SPDX-License-Identifier: MIT
"""Calls of user functions: what they are given, and what is checked around them."""
