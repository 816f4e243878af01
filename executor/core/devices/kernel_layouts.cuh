// SPDX-License-Identifier: MIT
// The arguments of the kernels in celerity_py/cuda/small_copies.cuh, and flags that these read. NVRTC and C++ compile this file: it includes nothing, and its
// integers have the same sizes on both sides.
#pragma once

namespace celerity {

/// A flag between two ranks, or two devices of a rank, that a kernel of a graph raises, or for which it waits.
struct graph_flag {
	unsigned long long word = 0; ///< address on the device that waits; reached when it holds `value` or a later one. 0: there is none
	unsigned long long value = 0;
	/// Between ranks: raised as well, for ranks that wait otherwise; a rank that waits looks at it, too, as other ranks may not raise the word.
	unsigned* host = nullptr;
	unsigned host_value = 0;
	/// The number of the message whose data comes into an inbox, besides; 0: the one side does not put it there, or the other side does not look there.
	unsigned put_number = 0;
};
static_assert(sizeof(graph_flag) == 32);

/// So many flags are set by one launch: as many as fit into the parameters of a kernel.
inline constexpr unsigned flags_per_launch = 120;
struct flag_arguments {
	graph_flag* destination;
	unsigned long long count;
	graph_flag flags[flags_per_launch];
};

/// A strided copy of words. Source and destination are addresses.
struct small_copy {
	unsigned long long source, destination;
	unsigned count[3];          ///< words in a run, runs, planes of runs
	unsigned word_bytes;        ///< 16, 8, 4, 2 or 1: addresses and strides are multiples of it
	long long source_stride[2]; ///< of runs and planes, in bytes
	long long destination_stride[2];
};

inline constexpr unsigned max_small_copies = 8;
inline constexpr unsigned few_small_copies = 2;
/// All blocks with the same y work on one copy together. The kernel for few copies takes as many of them as it needs.
template <unsigned NumCopies>
struct small_copy_arguments {
	unsigned long long num_copies;
	small_copy copies[NumCopies];
};

/// The words of a copy in an inbox, in the order of the copy. Behind each word of four bytes is the number of its message.
struct inbox_words {
	unsigned long long address; ///< 0: there are none
	long long stride[2];        ///< of runs and planes, in bytes
	unsigned num_turns, bytes_per_turn;
};
struct exchanged_copy {
	small_copy copy;        ///< of a put, without destination
	const graph_flag* flag; ///< null: the copy waits for no flag of its own
	inbox_words inbox;
};
/// An exchange with other devices or ranks. Its flags lie in memory of the device, so that no argument changes from launch to launch.
struct exchange_arguments {
	unsigned num_copies, num_puts, num_raised, num_awaited, num_awaited_by_end, unused;
	const unsigned* stop; ///< not 0: waits end, and the context with them
	const graph_flag *raised[max_small_copies], *awaited[max_small_copies], *awaited_by_end[max_small_copies];
	exchanged_copy copies[max_small_copies], puts[max_small_copies];
};
static_assert(sizeof(exchange_arguments) <= 4096, "a kernel has no more parameters on older GPUs");

} // namespace celerity
