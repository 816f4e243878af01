// SPDX-License-Identifier: MIT
// Kernels that the maker of fused kernels has made of functions on arrays: one or several passes over memory, launched in order.
//
// Each pass gets a block of words of 8 bytes: per memory the address of the element at the origin of all coordinates, which need not lie in the allocation; per
// memory the strides of all dimensions in bytes; the numbers of the chunk; and the scalars of the submit, 16 bytes each.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "native_launch.hpp"

namespace celerity {

/// A memory of the kernel: the allocation of an access, or the partial result of a reduction.
struct fused_memory {
	std::size_t access = 0; ///< among those of the task, or reduction
	std::uint32_t dims = 0; ///< of the buffer
	std::size_t element_size_bytes = 0;
	std::vector<std::int64_t> inner_strides; ///< of the dimensions of an element, in bytes
	bool is_reduction = false;
};

/// Memory that lasts as long as the passes of a chunk, behind those of accesses.
struct fused_scratch {
	std::int64_t offset_bytes = 0; ///< of the element at the origin of all coordinates, in the scratch memory of the chunk
	std::vector<std::int64_t> strides;
};

/// The threads of a GPU that carry out a pass.
struct fused_threads {
	/// x first
	struct shape {
		std::array<std::uint32_t, 3> block{1, 1, 1}; ///< threads
		std::array<std::uint32_t, 3> items{1, 1, 1}; ///< of each thread
	};
	shape tiles;
	/// A memory of which threads access vectors if addresses allow it.
	struct wide_memory {
		std::size_t memory = 0;
		std::size_t first_stride = 0;
		std::size_t dims = 0;
		std::int64_t size_bytes = 0; ///< of an item
	};
	std::vector<wide_memory> wide;
	std::array<std::int64_t, 2> margins{0, 0}; ///< columns before and behind its items that a thread with vectors touches as well
	/// The place among the numbers of three that the launch sets: the first column of vectors, the end of the last one, and where the first thread begins. Behind
	/// them lie the limits of vectors.
	std::optional<std::size_t> wide_bounds = {};
	std::optional<shape> single = {}; ///< of the function without vectors
	std::uint32_t most_blocks = 0; ///< of the grid; 0: as many as there are tiles
};

/// x first
struct fused_grid {
	std::array<std::uint32_t, 3> blocks{};
	std::array<std::uint32_t, 3> threads{1, 1, 1}; ///< of a block
	bool is_single = false; ///< of the function without vectors
};

struct fused_pass {
	std::vector<std::uintptr_t> functions; ///< of GPUs one per local device, of CPU devices one for all
	std::vector<std::uintptr_t> single; ///< for addresses that allow no vectors, per local device; empty if there are no vectors
	fused_threads threads; ///< of GPUs

	const std::vector<std::uintptr_t>& functions_of(const fused_grid& grid) const { return grid.is_single ? single : functions; }
};

/// Passes that chunks share.
struct fused_structure {
	std::vector<fused_pass> passes;
	std::size_t first_scalar_byte = 0; ///< among the scalars of the submit
	std::size_t scalar_bytes = 0;
};

/// The items of a pass: half-open intervals, dimension 0 first; of GPUs those of the grid.
struct fused_items {
	std::vector<std::int64_t> bounds; ///< low and high per dimension
	/// On CPU devices, in how many parts they are computed: the same on any number of cores. Each part gets its number. 0: in as many as suits the device.
	std::int64_t parts = 0;

	std::size_t dims() const { return bounds.size() / 2; }
	std::int64_t extent(const std::size_t dim) const { return bounds[2 * dim + 1] - bounds[2 * dim]; }
	/// None if an interval is empty.
	std::int64_t area() const;
	/// The bounds of one of `count` parts, which is cut along the first dimension that is long enough: whole rows where possible. Of numbered parts with the number.
	std::vector<std::int64_t> part(std::int64_t number, std::int64_t count) const;
};

struct fused_chunk {
	box chunk;
	std::size_t structure = 0;
	std::vector<fused_items> items; ///< by pass
	std::vector<std::int64_t> numbers;
	std::vector<fused_scratch> scratch;
	std::size_t scratch_bytes = 0; ///< of all of them
	/// By memory a box of a periodic access, whose elements lie together; an empty one of others. None if there are no periodic accesses.
	std::vector<box> parts;
};

/// The block of a launch. Reused from launch to launch.
class fused_block {
  public:
	void begin() { m_words.clear(); }
	void put(const std::int64_t word) { m_words.push_back(word); }
	void put_bytes(std::span<const std::byte> bytes);
	std::size_t size() const { return m_words.size(); }
	std::int64_t* words() { return m_words.data(); }

  private:
	std::vector<std::int64_t> m_words;
};

class fused_kernel final : public native_kernel {
  public:
	/// Throws std::invalid_argument.
	fused_kernel(std::vector<fused_memory> memories, std::vector<fused_structure> structures, std::vector<fused_chunk> chunks);

	const fused_kernel* as_fused() const override { return this; }
	/// Throws std::logic_error if it was made for other chunks.
	const fused_chunk& find(const box& chunk) const;
	const fused_structure& structure_of(const fused_chunk& chunk) const { return m_structures[chunk.structure]; }
	/// The places in the block where strides, numbers and scalars begin.
	struct layout {
		std::size_t strides = 0;
		std::size_t numbers = 0;
		std::size_t scalars = 0;
	};
	/// `scratch`: memory for the chunk, or null if it needs none.
	layout fill(const fused_chunk& chunk, const launch_operation& launch, const void* scratch, fused_block& out) const;
	/// Sets the columns that threads access as vectors, and returns the grid; nothing if there are no items.
	static std::optional<fused_grid> begin_pass(const fused_items& items, const fused_threads& threads, const layout& at, fused_block& block);

  private:
	std::vector<fused_memory> m_memories;
	std::vector<fused_structure> m_structures;
	std::vector<fused_chunk> m_chunks;
};

} // namespace celerity
