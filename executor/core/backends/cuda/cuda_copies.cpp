// SPDX-License-Identifier: MIT
#include "cuda_copies.hpp"

#include <algorithm>

#include "scheduler/core/base/overloaded.hpp"

namespace celerity {

cuda_copies::cuda_copies(const cuda_devices& devices, const std::vector<cuda_small_copies::functions>& kernels) : m_driver(devices.driver()) {
	int max_pitch = 0;
	m_driver.check(m_driver.device_get_attribute(&max_pitch, cuda::attribute_max_pitch, devices.front().handle), "cuDeviceGetAttribute");
	m_max_pitch_bytes = static_cast<std::size_t>(max_pitch);
	m_small_copies.resize(devices.size());
	for(std::size_t d = 0; d < kernels.size(); ++d) m_small_copies[d].set_functions(kernels[d]);
}

static_assert(max_gathered_boxes <= max_small_copies);

void cuda_copies::gather(const cuda_lane& lane, const std::vector<copy_operation>& gathered) {
	auto& small = m_small_copies[lane.device()];
	small.clear();
	if(small.is_available() && std::all_of(gathered.begin(), gathered.end(), [&](const copy_operation& part) { return add(small, part); })) {
		small.launch(m_driver, lane.stream());
	} else {
		for(const auto& part : gathered) copy(lane.stream(), part);
	}
}

// For graphs that wait for each other: copy engines may not begin their copies between devices of a process, and the graphs stand still. See decisions.md.
void cuda_copies::copy_by_kernels(const cuda_lane& lane, const std::span<const copy_operation> copies) {
	auto& small = m_small_copies[lane.device()];
	small.clear();
	for(const auto& operation : copies) {
		for_each_strided_copy(operation.source.array, operation.destination.array, operation.boxes, operation.element_size_bytes,
		    [&](const strided_copy& runs) {
			    if(small.is_full()) {
				    small.launch(m_driver, lane.stream());
				    small.clear();
			    }
			    small.add_of_any_size(operation.source.address, operation.destination.address, runs);
		    });
	}
	small.launch(m_driver, lane.stream());
}

void cuda_copies::copy(const cuda::stream stream, const copy_operation& operation) {
	const auto &source = operation.source, &destination = operation.destination;
	for_each_strided_copy(source.array, destination.array, operation.boxes, operation.element_size_bytes, [&](const strided_copy& runs) {
		copy_runs(stream, source.address + runs.source_offset_bytes, destination.address + runs.destination_offset_bytes, runs);
	});
}

void cuda_copies::copy_runs(const cuda::stream stream, const std::byte* const source, std::byte* const destination, const strided_copy& runs) {
	const auto& inner = runs.loops[0];
	const auto& outer = runs.loops[1];
	const bool has_inner = runs.num_loops >= 1 && inner.count > 1;
	const bool has_outer = runs.num_loops >= 2 && outer.count > 1;
	if(!has_inner && !has_outer) {
		m_driver.check(m_driver.copy_async(cuda::to_device_pointer(destination), cuda::to_device_pointer(source), runs.run_bytes, stream), "cuMemcpyAsync");
		return;
	}
	const auto fits = [&](const strided_copy::loop& loop) {
		return loop.source_stride_bytes <= m_max_pitch_bytes && loop.destination_stride_bytes <= m_max_pitch_bytes;
	};
	if(has_inner && has_outer && fits(inner) && outer.source_stride_bytes % inner.source_stride_bytes == 0
	    && outer.destination_stride_bytes % inner.destination_stride_bytes == 0) {
		cuda::copy_3d c{};
		c.source_type = c.destination_type = cuda::memory_type_unified;
		c.source_device = cuda::to_device_pointer(source);
		c.source_pitch = inner.source_stride_bytes;
		c.source_height = outer.source_stride_bytes / inner.source_stride_bytes;
		c.destination_device = cuda::to_device_pointer(destination);
		c.destination_pitch = inner.destination_stride_bytes;
		c.destination_height = outer.destination_stride_bytes / inner.destination_stride_bytes;
		c.width_bytes = runs.run_bytes;
		c.height = inner.count;
		c.depth = outer.count;
		m_driver.check(m_driver.copy_3d_async(&c, stream), "cuMemcpy3DAsync");
		return;
	}
	// One loop is left to a 2-D copy, or, where even a row is too long for one, to runs.
	const auto& rows = has_inner ? inner : outer;
	const std::size_t num_planes = has_inner && has_outer ? outer.count : 1;
	for(std::size_t plane = 0; plane < num_planes; ++plane) {
		const auto* const from = source + plane * outer.source_stride_bytes;
		auto* const to = destination + plane * outer.destination_stride_bytes;
		if(fits(rows)) {
			cuda::copy_2d c{};
			c.source_type = c.destination_type = cuda::memory_type_unified;
			c.source_device = cuda::to_device_pointer(from);
			c.source_pitch = rows.source_stride_bytes;
			c.destination_device = cuda::to_device_pointer(to);
			c.destination_pitch = rows.destination_stride_bytes;
			c.width_bytes = runs.run_bytes;
			c.height = rows.count;
			m_driver.check(m_driver.copy_2d_async(&c, stream), "cuMemcpy2DAsync");
			continue;
		}
		for(std::size_t row = 0; row < rows.count; ++row) {
			m_driver.check(m_driver.copy_async(cuda::to_device_pointer(to + row * rows.destination_stride_bytes),
			                   cuda::to_device_pointer(from + row * rows.source_stride_bytes), runs.run_bytes, stream),
			    "cuMemcpyAsync");
		}
	}
}

bool cuda_copies::add(cuda_small_copies& small, const copy_operation& copy) {
	bool fits = true;
	for_each_strided_copy(copy.source.array, copy.destination.array, copy.boxes, copy.element_size_bytes,
	    [&](const strided_copy& runs) { fits = fits && small.add(copy.source.address, copy.destination.address, runs); });
	return fits;
}

bool cuda_copies::add_all(cuda_small_copies& small, const decltype(graph_operation::what)& what) {
	return std::visit(overloaded{
	                      [&](const copy_operation& copy) { return add(small, copy); },
	                      [&](const std::vector<copy_operation>& gathered) {
		                      return std::all_of(gathered.begin(), gathered.end(), [&](const copy_operation& part) { return add(small, part); });
	                      },
	                      [](const launch_operation&) { return false; },
	                      [](const reduce_operation&) { return false; },
	                  },
	    what);
}

} // namespace celerity
