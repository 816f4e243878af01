# SPDX-License-Identifier: MIT
"""What a rank looks at while it runs: progress, silent peers, and whether all ranks run the same program."""
