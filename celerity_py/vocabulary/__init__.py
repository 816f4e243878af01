# SPDX-License-Identifier: MIT
"""Types that several rooms use: accesses, submissions, chunks and index spaces, and how messages show them."""
