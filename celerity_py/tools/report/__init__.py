# SPDX-License-Identifier: MIT
"""Reports: timelines of a run as one page of HTML, with figures and advice in words."""
