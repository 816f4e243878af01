// SPDX-License-Identifier: MIT
// Copies and flags on the streams of cuda_backend.
#include "cuda_backend.hpp"

#include <algorithm>
#include <utility>

#include "memory/nd_copy.hpp"
#include "transfers/flag_segment.hpp"

namespace celerity {

void cuda_backend::issue_on(cuda_lane& lane, const copy_operation& operation) { copy(lane.stream(), operation); }

static_assert(max_gathered_boxes <= cuda_small_copies::max_parts);

void cuda_backend::issue_on(cuda_lane& lane, const std::vector<copy_operation>& gathered) {
	auto& small = m_small_copies[lane.device()];
	small.clear();
	if(small.is_available() && std::all_of(gathered.begin(), gathered.end(), [&](const copy_operation& part) { return add(small, part); })) {
		small.launch(m_driver, lane.stream());
	} else {
		for(const auto& part : gathered) copy(lane.stream(), part);
	}
}

void cuda_backend::copy(const cuda::stream stream, const copy_operation& operation) {
	for_each_strided_copy(*operation.source_layout, *operation.destination_layout, operation.boxes, operation.element_size_bytes, [&](const strided_copy& runs) {
		copy_runs(stream, static_cast<const std::byte*>(operation.source) + runs.source_offset_bytes,
		    static_cast<std::byte*>(operation.destination) + runs.destination_offset_bytes, runs);
	});
}

void cuda_backend::copy_runs(const cuda::stream stream, const std::byte* const source, std::byte* const destination, const strided_copy& runs) {
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

// ---- transfers between the ranks of a host -------------------------------------------------------------------------------------------

// In one call: that takes the GPU less time, too. For writes, a flag of 0 means the usual order.
void cuda_backend::enqueue_flags(const cuda::stream stream, const int kind, const std::span<const shared_flag> flags) {
	small_vector<cuda::memory_operation, 8> operations;
	for(std::size_t first = 0; first < flags.size(); first += cuda::max_memory_operations) {
		operations.clear();
		for(const auto& flag : flags.subspan(first, std::min(flags.size() - first, cuda::max_memory_operations))) {
			operations.push_back({kind, cuda::to_device_pointer(flag.address), flag.value, cuda::wait_value_geq, 0, 0});
		}
		m_driver.check(m_driver.stream_batch(stream, static_cast<unsigned>(operations.size()), operations.data(), 0), "cuStreamBatchMemOp");
	}
}

void cuda_backend::enqueue_signal(const lane_position position, const lane_waits& waits, const shared_flag& flag) {
	const cuda_operation::signal signal{position, flag};
	if(!waits.is_one) {
		flush();
		hand_over(waits, {position, {}, {}, cuda_operation::signals{signal}, {}});
		return;
	}
	const lane_position producer = waits.positions[0];
	const bool goes_with_them = !m_kept_signals.empty() && producer == m_signalled
	                            && m_device_of_lane[position.lane] == m_device_of_lane[m_kept_signals.front().position.lane];
	if(!goes_with_them) flush();
	m_signalled = producer;
	m_kept_signals.push_back(signal);
}

void cuda_backend::flush() {
	if(m_kept_signals.empty()) return;
	const auto signals = std::exchange(m_kept_signals, {});
	hand_over({std::span(&m_signalled, 1), {}, true}, {signals.front().position, {}, {}, signals, {}});
}

void cuda_backend::issue_on(cuda_lane& lane, const shared_flag& flag) {
	if(flag.address != nullptr) enqueue_flags(lane.stream(), cuda::memory_operation_write, std::span(&flag, 1));
}

void cuda_backend::enqueue_pulls(const lane_position position, const lane_waits& waits, const std::span<const pull_operation> pulls) {
	hand_over(waits, {position, {}, {}, std::vector<pull_operation>(pulls.begin(), pulls.end()), {}});
}

void cuda_backend::issue_on(cuda_lane& lane, const std::vector<pull_operation>& pulls) {
	auto& small = m_small_copies[lane.device()];
	// Kernels reach a peer's slab from the device only in whose context it was opened; copy engines do from all.
	small.clear();
	const bool is_small = m_devices.size() == 1 && small.is_available()
	                      && std::all_of(pulls.begin(), pulls.end(), [&](const pull_operation& pull) { return add(small, pull.copy); });
	small_vector<shared_flag, 8> ready; // of several messages that share one, once
	std::size_t num_enqueued = 0;
	const auto wait = [&] {
		enqueue_flags(lane.stream(), cuda::memory_operation_wait, std::span(ready.data() + num_enqueued, ready.size() - num_enqueued));
		num_enqueued = ready.size();
	};
	for(const auto& pull : pulls) {
		if(pull.ready.address != nullptr && !is_reached(pull.ready) && std::find(ready.begin(), ready.end(), pull.ready) == ready.end()) {
			ready.push_back(pull.ready);
		}
		if(is_small) continue;
		wait();
		copy(lane.stream(), pull.copy);
	}
	if(!is_small) return;
	wait();
	small.launch(m_driver, lane.stream());
}

bool cuda_backend::add(cuda_small_copies& small, const copy_operation& copy) {
	bool fits = true;
	for_each_strided_copy(*copy.source_layout, *copy.destination_layout, copy.boxes, copy.element_size_bytes,
	    [&](const strided_copy& runs) { fits = fits && small.add(copy.source, copy.destination, runs); });
	return fits;
}

void cuda_backend::set_small_copies(const std::span<const cuda::function> functions) {
	for(std::size_t d = 0; d < m_small_copies.size(); ++d) m_small_copies[d].set_function(functions[d]);
}

// After the event of the position: who waits for the data need not wait for the flag, too.
void cuda_backend::write_answers(cuda_lane& lane, const std::vector<pull_operation>& pulls) {
	small_vector<shared_flag, 8> answers;
	for(const auto& pull : pulls) {
		if(pull.answer.address == nullptr) continue;
		if(!wait_for(lane.stream(), pull.answer_after)) return;
		answers.push_back(pull.answer);
	}
	enqueue_flags(lane.stream(), cuda::memory_operation_write, std::span(answers.data(), answers.size()));
}

} // namespace celerity
