# SPDX-License-Identifier: MIT
"""Formats of files: how arrays are made, written and read box by box. Knows no buffer and no queue."""
