# SPDX-License-Identifier: MIT
"""What happens when something fails, and what is shown of it."""
