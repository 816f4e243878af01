// SPDX-License-Identifier: MIT
// A compiled CUDA kernel, and how its parameters are laid out.
//
// The layouts are those of the device header: with N = max(dimensions, 1) and 64-bit integers throughout, a chunk is min[N], max[N], global_min[N],
// global_max[N]; an accessor is a pointer, the strides of all dimensions but the last (at least one), in elements, and the N extents of the buffer.
// A periodic accessor has 2^N times a pointer and strides, then N coordinates that divide them, and the N extents. With bounds checks, an accessor continues
// with the number of boxes, the lower corners of max_checked_boxes boxes, their upper corners, the address of the report and the number of the access. A
// reducer of a buffer of one element is a pointer. Of several elements, it is a pointer and the extents of the buffer; with bounds checks, the address of
// the report and the number of the reduction, counted on from the accesses, follow.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "backends/native_launch.hpp"
#include "cuda_driver.hpp"

namespace celerity {

class cuda_function final : public native_kernel {
  public:
	struct parameter {
		enum class kind_type : std::uint8_t { chunk, accessor, periodic_accessor, reducer, scalar };
		kind_type kind = kind_type::scalar;
		std::uint32_t dims = 0;          ///< of chunks and accessors; of a reducer, 0 if its buffer has one element
		std::size_t size_bytes = 0;      ///< of a scalar, which is as aligned as it is large, or of an accessor's element
		std::vector<std::byte> identity; ///< of a reducer: one element
	};

	/// `functions` by local device; extents of `block`, `grid`, and `items` of each thread as users write them, x last. An empty grid is derived from
	/// the chunk, no items are one. Throws std::invalid_argument.
	cuda_function(std::vector<cuda::function> functions, std::vector<std::uint32_t> block, std::vector<std::uint32_t> grid, std::uint32_t shared_bytes,
	    std::vector<parameter> parameters, bool checks_bounds, const std::vector<std::uint32_t>& items = {});

	std::span<const parameter> parameters() const { return m_parameters; }
	bool checks_bounds() const { return m_checks_bounds; }
	cuda::function function(const device_id device) const { return m_functions.at(device.value); }
	std::uint32_t shared_bytes() const { return m_shared_bytes; }
	std::array<std::uint32_t, 3> block() const { return m_block; } ///< x first
	std::array<std::uint32_t, 3> grid(const box& chunk) const; ///< x first

  private:
	std::vector<cuda::function> m_functions;
	std::uint32_t m_dims = 1;
	std::array<std::uint32_t, 3> m_block{1, 1, 1};
	std::array<std::uint32_t, 3> m_grid{0, 0, 0}; ///< zero: derived
	std::array<std::uint32_t, 3> m_items{1, 1, 1};
	std::uint32_t m_shared_bytes;
	std::vector<parameter> m_parameters;
	bool m_checks_bounds;
};
template <>
inline constexpr std::array<const char*, 5> names_of<cuda_function::parameter::kind_type>{"chunk", "accessor", "periodic_accessor", "reducer", "scalar"};

/// The values of a launch's parameters, as the driver wants them. Reused from launch to launch.
class packed_parameters {
  public:
	/// Throws std::invalid_argument if the launch does not fit the parameters. A kernel that checks bounds reports to its `violation`.
	void pack(const cuda_function& function, const launch_operation& launch);
	void** pointers() { return m_pointers.data(); }

  private:
	std::vector<std::byte> m_bytes;
	std::byte* m_next = nullptr; ///< the place in m_bytes where the next value goes
	std::vector<void*> m_pointers;

	void begin(std::size_t alignment_bytes);
	template <typename T>
	void put(const T& value);
	void put_corner(const point& corner, std::uint32_t dims, std::int64_t fill);
	void put_box(const box& b, std::uint32_t dims);
	void put_place(const array_place& place, std::uint32_t dims, std::size_t element_size_bytes);
	void put_accessor(const cuda_function::parameter& parameter, const access_binding& access, std::span<const array_place> places);
	void put_parts(const cuda_function::parameter& parameter, const access_binding& access, std::span<const array_place> places);
	void put_bounds(const access_binding& access, std::uint32_t dims);
	void put_reducer(const array_place& place, std::uint32_t dims);
	void put_report(const launch_operation& launch, std::size_t number);
};

/// Boxes that an accessor of a kernel that checks bounds carries; of more, it carries the bounding box.
inline constexpr std::size_t max_checked_boxes = 8;

} // namespace celerity
