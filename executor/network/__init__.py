# SPDX-License-Identifier: MIT
"""How ranks find each other and exchange messages."""
