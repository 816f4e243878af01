// SPDX-License-Identifier: MIT
#include "mpi_operations.hpp"

#include <algorithm>
#include <functional>

namespace celerity {

template <typename Handle>
mpi_inbox<Handle>::mpi_inbox(const mpi_api<Handle>& api, const rank_id source, const int tag, const std::size_t num_slots, const std::size_t frame_bytes)
    : m_api(api), m_source(source), m_tag(tag), m_memory(num_slots, frame_content(frame_bytes)), m_status(api.status_bytes) {
	for(auto& memory : m_memory) {
		auto& receive = m_receives.emplace_back();
		m_api.check(
		    m_api.recv_init(memory.data(), static_cast<int>(frame_bytes), m_api.words[0], static_cast<int>(source.value), tag, m_api.communicator, &receive),
		    "MPI_Recv_init");
		m_api.check(m_api.start(&receive), "MPI_Start");
	}
}

template <typename Handle>
bool mpi_inbox<Handle>::advance() {
	m_api.check(m_api.start(&m_receives[m_next]), "MPI_Start");
	m_next = (m_next + 1) % m_receives.size();
	int is_complete = 0;
	m_api.check(m_api.test(&m_receives[m_next], &is_complete, m_status.data()), "MPI_Test");
	return is_complete != 0;
}

template <typename Handle>
void mpi_inbox<Handle>::close() {
	for(auto& receive : m_receives) {
		m_api.check(m_api.cancel(&receive), "MPI_Cancel");
		m_api.check(m_api.wait(&receive, m_status.data()), "MPI_Wait");
		m_api.check(m_api.request_free(&receive), "MPI_Request_free");
	}
	m_receives.clear();
}

template <typename Handle>
const std::vector<int>& mpi_operations<Handle>::test() {
	m_complete.resize(m_handles.size());
	m_statuses.resize(m_handles.size() * m_api.status_bytes);
	int count = 0;
	m_api.check(m_api.testsome(static_cast<int>(m_handles.size()), m_handles.data(), &count, m_complete.data(), m_statuses.data()), "MPI_Testsome");
	m_complete.resize(count == m_api.undefined ? 0 : static_cast<std::size_t>(count));
	std::sort(m_complete.begin(), m_complete.end(), std::greater{});
	return m_complete;
}

template <typename Handle>
auto mpi_operations<Handle>::retire(const std::size_t position) -> std::pair<subject, request_id> {
	const std::pair retired{m_descriptions[position].waiting, m_descriptions[position].request};
	m_handles[position] = m_handles.back();
	m_handles.pop_back();
	if(position + 1 < m_descriptions.size()) m_descriptions[position] = std::move(m_descriptions.back());
	m_descriptions.pop_back();
	return retired;
}

template class mpi_inbox<int>;
template class mpi_inbox<void*>;
template class mpi_operations<int>;
template class mpi_operations<void*>;

} // namespace celerity
