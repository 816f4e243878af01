# SPDX-License-Identifier: MIT
"""Programs for one big device, run on all devices of all nodes."""

from __future__ import annotations
