# SPDX-License-Identifier: MIT
"""What all rooms speak of: accesses, submissions, parts and index spaces, and how messages show them."""
