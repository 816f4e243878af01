// SPDX-License-Identifier: MIT
// The kernels that run on the emulated devices of the ranks: those of their program, and the runtime's own in place of celerity_py/cuda/small_copies.cuh and
// reductions.cuh.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "cuda.hpp"
#include "executor/core/devices/backend.hpp"
#include "executor/core/memory/reduce_kernels.hpp"
#include "executor/core/transfers/flag_memory.hpp"
#include "scheduler/core/geometry/grid.hpp"

namespace emulated_ranks {

using namespace celerity;

inline constexpr coordinate extent = 48;
using value = std::uint32_t;

using emulated_cuda::die;

// ---- kernels of the program ----------------------------------------------------------------------------------------------------------

/// The inputs of an item: itself and its neighbours; itself and the items above, so that whoever has the upper rows need not wait for the others; or
/// something of everything; or something of every other element, each of which is a message of its own.
enum class pattern { halos, from_above, all, every_other };

inline value at_first(const coordinate row, const coordinate column) { return static_cast<value>(row * 1000 + column); }

inline value updated(const value old, const value centre, const value above, const value below, const value left, const value right) {
	return old * 3 + centre + above * 5 + below * 7 + left * 11 + right * 13;
}

struct chunk_2d {
	std::int64_t min[2], max[2], global_min[2], global_max[2];
};
struct accessor_2d {
	value* data;
	std::int64_t stride;
	std::int64_t extent[2];
	value& operator()(const std::int64_t row, const std::int64_t column) const { return data[row * stride + column]; }
};

template <typename F>
void for_each_item(const chunk_2d& chunk, F&& f) {
	for(std::int64_t row = chunk.min[0]; row < chunk.max[0]; ++row) {
		for(std::int64_t column = chunk.min[1]; column < chunk.max[1]; ++column) f(row, column);
	}
}

inline void initialize(void* const* const parameters) {
	const auto& out = *static_cast<const accessor_2d*>(parameters[1]);
	for_each_item(*static_cast<const chunk_2d*>(parameters[0]), [&](const auto row, const auto column) { out(row, column) = at_first(row, column); });
}

inline void advance(void* const* const parameters) {
	const auto& out = *static_cast<const accessor_2d*>(parameters[1]);
	const auto& in = *static_cast<const accessor_2d*>(parameters[2]);
	for_each_item(*static_cast<const chunk_2d*>(parameters[0]), [&](const auto row, const auto column) {
		const auto read = [&](const std::int64_t r, const std::int64_t c) { return r < 0 || c < 0 || r >= in.extent[0] || c >= in.extent[1] ? 0 : in(r, c); };
		out(row, column) =
		    updated(out(row, column), in(row, column), read(row - 1, column), read(row + 1, column), read(row, column - 1), read(row, column + 1));
	});
}

inline void advance_from_above(void* const* const parameters) {
	const auto& out = *static_cast<const accessor_2d*>(parameters[1]);
	const auto& in = *static_cast<const accessor_2d*>(parameters[2]);
	for_each_item(*static_cast<const chunk_2d*>(parameters[0]),
	    [&](const auto row, const auto column) { out(row, column) = updated(out(row, column), in(row, column), row > 0 ? in(row - 1, column) : 0, 0, 0, 0); });
}

/// Of every row; of any column, or of every other one, as on the black squares of a chessboard.
inline value sum_of_some(const std::int64_t row, const std::int64_t stride, const auto& read) {
	value sum = 0;
	for(std::int64_t i = 0; i < extent; ++i) sum += read(i, (7 * i + row) % (extent / stride) * stride + i % stride);
	return sum;
}

template <std::int64_t Stride>
void advance_by_some(void* const* const parameters) {
	const auto& out = *static_cast<const accessor_2d*>(parameters[1]);
	const auto& in = *static_cast<const accessor_2d*>(parameters[2]);
	for_each_item(*static_cast<const chunk_2d*>(parameters[0]),
	    [&](const auto row, const auto column) { out(row, column) = out(row, column) * 3 + in(row, column) + sum_of_some(row, Stride, in); });
}

inline std::vector<value> expected;
inline std::atomic<std::uint64_t> num_wrong{0};
inline std::atomic<std::uint64_t> num_checked{0};

inline void compare(void* const* const parameters) {
	const auto& in = *static_cast<const accessor_2d*>(parameters[1]);
	for_each_item(*static_cast<const chunk_2d*>(parameters[0]), [&](const auto row, const auto column) {
		num_wrong += in(row, column) != expected[static_cast<std::size_t>(row * extent + column)];
		++num_checked;
	});
}

inline std::atomic<value> sum_of_peeks{0};
inline void peek(void* const* const parameters) {
	for(const int buffer : {1, 2}) {
		const auto& in = *static_cast<const accessor_2d*>(parameters[buffer]);
		for(coordinate row = 0; row < extent; ++row) sum_of_peeks += in(row, row);
	}
}

inline const emulated_cuda::function initialize_function{{sizeof(chunk_2d), sizeof(accessor_2d)}, initialize};
inline const emulated_cuda::function advance_function{{sizeof(chunk_2d), sizeof(accessor_2d), sizeof(accessor_2d)}, advance};
inline const emulated_cuda::function advance_by_all_function{advance_function.parameter_bytes, advance_by_some<1>};
inline const emulated_cuda::function advance_by_every_other_function{advance_function.parameter_bytes, advance_by_some<2>};
inline const emulated_cuda::function advance_from_above_function{advance_function.parameter_bytes, advance_from_above};
inline const emulated_cuda::function compare_function{{sizeof(chunk_2d), sizeof(accessor_2d)}, compare};
inline const emulated_cuda::function peek_function{{sizeof(chunk_2d), sizeof(accessor_2d), sizeof(accessor_2d)}, peek};

inline const emulated_cuda::function& advancing(const pattern reads) {
	switch(reads) {
	case pattern::halos: return advance_function;
	case pattern::from_above: return advance_from_above_function;
	case pattern::every_other: return advance_by_every_other_function;
	default: return advance_by_all_function;
	}
}

// ---- kernels of the runtime ----------------------------------------------------------------------------------------------------------

inline void reduce_values(void* const* const parameters) {
	const auto parameter = [&]<typename T>(const std::size_t i, const T&) { return *static_cast<const T*>(parameters[i]); };
	const void* const source = parameter(0, static_cast<void*>(nullptr));
	reduce_partials(reduction_op::sum, scalar_type::uint32, source, parameter(1, std::size_t{}), parameter(2, std::size_t{}),
	    parameter(3, static_cast<void*>(nullptr)));
}
inline const emulated_cuda::function reduce_function{std::vector<std::size_t>(5, sizeof(std::uint64_t)), reduce_values};

inline void raise(const shared_flag& flag) {
	std::atomic_ref(*flag.address).store(flag.value, std::memory_order_release);
	emulated_cuda::count_flag_write();
}

inline bool is_stopped(const exchange_arguments& arguments) {
	return arguments.stop != nullptr && std::atomic_ref(*const_cast<unsigned*>(arguments.stop)).load() != 0;
}

inline void copy_rows(const small_copy& rows) {
	for(std::uint64_t plane = 0; plane < rows.count[2]; ++plane) {
		for(std::uint64_t row = 0; row < rows.count[1]; ++row) {
			const auto offset = [&](const long long* const stride) {
				return static_cast<std::int64_t>(row) * stride[0] + static_cast<std::int64_t>(plane) * stride[1];
			};
			std::memcpy(reinterpret_cast<std::byte*>(rows.destination) + offset(rows.destination_stride),
			    reinterpret_cast<const std::byte*>(rows.source) + offset(rows.source_stride), rows.count[0] * rows.word_bytes);
		}
	}
}

template <unsigned NumCopies>
void copy_small(void* const* const parameters) {
	const auto& arguments = *static_cast<const small_copy_arguments<NumCopies>*>(parameters[0]);
	if(arguments.num_copies > NumCopies) die("the kernel has too few places for copies");
	for(std::uint64_t i = 0; i < arguments.num_copies; ++i) copy_rows(arguments.copies[i]);
}

template <unsigned NumCopies>
inline const emulated_cuda::function small_copies_function{{sizeof(small_copy_arguments<NumCopies>)}, copy_small<NumCopies>};

struct exchange {
	/// Calls f(byte from the first one of the copy's array, word in the inbox, its offset in the destination).
	static void for_each_word(const exchanged_copy& exchanged, const std::uint32_t message, const auto& f) {
		const auto& [rows, flag, words] = exchanged;
		const auto inbox = words.address + std::uint64_t{message % words.num_turns} * words.bytes_per_turn;
		for(std::int64_t plane = 0; plane < rows.count[2]; ++plane) {
			for(std::int64_t row = 0; row < rows.count[1]; ++row) {
				for(std::int64_t word = 0; word < rows.count[0] * rows.word_bytes / 4; ++word) {
					const auto at = [&](const auto* const strides) { return row * strides[0] + plane * strides[1]; };
					f(word * 4 + at(rows.source_stride), std::atomic_ref(*reinterpret_cast<std::uint64_t*>(inbox + word * 8 + at(words.stride))),
					    word * 4 + at(rows.destination_stride));
				}
			}
		}
	}
	using word_ref = std::atomic_ref<std::uint64_t>;

	static bool is_up(const graph_flag& flag) {
		return (flag.word != 0 && std::atomic_ref(*reinterpret_cast<std::uint64_t*>(flag.word)).load(std::memory_order_acquire) >= flag.value)
		       || (flag.host != nullptr && is_reached({flag.host, flag.host_value}));
	}
	static bool may_come(const exchanged_copy& fetched) { return fetched.inbox.address != 0 && fetched.flag->put_number != 0; }
	static bool has_come(const exchanged_copy& fetched) {
		if(!may_come(fetched)) return false;
		bool is_all_here = true;
		for_each_word(fetched, fetched.flag->put_number, [&](std::int64_t, const word_ref word, std::int64_t) {
			is_all_here = is_all_here && word.load(std::memory_order_acquire) >> 32 == fetched.flag->put_number;
		});
		return is_all_here;
	}
	/// This is asked again and again, and the flags may have gone to other messages.
	static bool may_go(void* const* const parameters) {
		const auto& given = *static_cast<const exchange_arguments*>(parameters[0]);
		for(std::uint32_t i = 0; i < given.num_puts; ++i) {
			const auto& stored = given.puts[i];
			if(stored.flag->put_number == 0) continue;
			for_each_word(stored, stored.flag->put_number, [&](const std::int64_t from, const word_ref word, std::int64_t) {
				std::uint32_t data = 0;
				std::memcpy(&data, reinterpret_cast<const std::byte*>(stored.copy.source) + from, sizeof data);
				word.store(std::uint64_t{stored.flag->put_number} << 32 | data, std::memory_order_release);
			});
		}
		for(std::uint32_t i = 0; i < given.num_raised; ++i) {
			const auto& flag = *given.raised[i];
			if(flag.word != 0) {
				const std::atomic_ref word(*reinterpret_cast<std::uint64_t*>(flag.word));
				if(word.load() < flag.value) word.store(flag.value, std::memory_order_release);
			}
			if(flag.host != nullptr && !is_reached({flag.host, flag.host_value})) raise({flag.host, flag.host_value});
		}
		const auto is_copy_ready = [](const exchanged_copy& fetched) { return fetched.flag == nullptr || has_come(fetched) || is_up(*fetched.flag); };
		const auto are_up = [](const graph_flag* const* const flags, const std::uint32_t count) {
			return std::all_of(flags, flags + count, [](const graph_flag* const flag) { return is_up(*flag); });
		};
		return is_stopped(given)
		       || (are_up(given.awaited, given.num_awaited) && are_up(given.awaited_by_end, given.num_awaited_by_end)
		           && std::all_of(given.copies, given.copies + given.num_copies, is_copy_ready));
	}
	static void run(void* const* const parameters) {
		const auto& given = *static_cast<const exchange_arguments*>(parameters[0]);
		if(is_stopped(given)) return emulated_cuda::trap();
		for(std::uint32_t i = 0; i < given.num_copies; ++i) {
			const auto& fetched = given.copies[i];
			num_taken += has_come(fetched) ? 1 : 0;
			if(!may_come(fetched)) {
				copy_rows(fetched.copy);
				continue;
			}
			// One by one: a later message may overwrite this one meanwhile, whose flag is up then.
			for_each_word(fetched, fetched.flag->put_number, [&](const std::int64_t from, const word_ref word, const std::int64_t to) {
				const auto seen = word.load(std::memory_order_acquire);
				auto data = static_cast<std::uint32_t>(seen);
				if(seen >> 32 != fetched.flag->put_number) std::memcpy(&data, reinterpret_cast<const std::byte*>(fetched.copy.source) + from, sizeof data);
				std::memcpy(reinterpret_cast<std::byte*>(fetched.copy.destination) + to, &data, sizeof data);
			});
		}
	}

	/// Copies whose data came into an inbox.
	static inline std::atomic<std::uint64_t> num_taken{0};
};

inline void set_flags(void* const* const parameters) {
	const auto& given = *static_cast<const flag_arguments*>(parameters[0]);
	std::copy_n(given.flags, given.count, given.destination);
}

inline void advance_flags(void* const* const parameters) {
	auto* const flags = *static_cast<graph_flag* const*>(parameters[0]);
	std::for_each_n(flags, *static_cast<const std::uint64_t*>(parameters[1]), [](graph_flag& flag) {
		++flag.value;
		if(flag.put_number != 0 && ++flag.put_number == 0) flag.put_number = 1;
	});
}

inline const emulated_cuda::function exchange_function{{sizeof(exchange_arguments)}, exchange::run, exchange::may_go};
inline const emulated_cuda::function set_flags_function{{sizeof(flag_arguments)}, set_flags};
inline const emulated_cuda::function advance_flags_function{{sizeof(void*), sizeof(std::uint64_t)}, advance_flags};

inline cuda::function handle_of(const emulated_cuda::function& function) {
	return reinterpret_cast<cuda::function>(const_cast<emulated_cuda::function*>(&function));
}

} // namespace emulated_ranks
