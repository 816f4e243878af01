// SPDX-License-Identifier: MIT
#include "cuda_timeline.hpp"

#include <cmath>
#include <utility>

#include "backends/lane_trace.hpp"

namespace celerity {

namespace {

std::int64_t to_ns(const float milliseconds) { return std::llround(1e6 * static_cast<double>(milliseconds)); }

} // namespace

cuda_timeline::cuda_timeline(const cuda::driver& driver, const cuda::stream stream, trace_recorder& trace, const double max_distance_ms)
    : m_driver(driver), m_trace(trace), m_max_distance_ms(max_distance_ms) {
	m_driver.check(m_driver.event_create(&m_reference, cuda::event_default), "cuEventCreate");
	// The first event of a context takes longer, because the driver sets itself up.
	for(int round = 0; round < 2; ++round) {
		m_driver.check(m_driver.event_record(m_reference, stream), "cuEventRecord");
		const std::int64_t recorded_ns = now_ns();
		m_driver.check(m_driver.stream_synchronize(stream), "cuStreamSynchronize");
		m_reference_ns = recorded_ns + (now_ns() - recorded_ns) / 2;
	}
}

cuda_timeline::~cuda_timeline() {
	if(!m_is_forgotten) m_driver.event_destroy(m_reference);
}

void cuda_timeline::add(const lane_position& position, const cuda::event begin, cuda::event& end, const std::int64_t issued_ns) {
	const std::int64_t found_ns = now_ns();
	float until_begin_ms = 0;
	float duration_ms = 0;
	if(m_driver.event_elapsed(&until_begin_ms, m_reference, begin) != cuda::success) return; // a gap is better than a failure
	if(m_driver.event_elapsed(&duration_ms, begin, end) != cuda::success) return;
	std::int64_t begin_ns = m_reference_ns + to_ns(until_begin_ms);
	std::int64_t end_ns = begin_ns + to_ns(duration_ms);

	std::int64_t correction_ns = 0;
	if(end_ns > found_ns) correction_ns = found_ns - end_ns;
	if(begin_ns + correction_ns < issued_ns) correction_ns = issued_ns - begin_ns;
	begin_ns += correction_ns;
	end_ns += correction_ns;
	m_reference_ns += correction_ns;
	trace_lane(m_trace, position, begin_ns, end_ns);

	if(static_cast<double>(until_begin_ms) + static_cast<double>(duration_ms) < m_max_distance_ms) return;
	std::swap(m_reference, end);
	m_reference_ns = end_ns;
}

} // namespace celerity
