// SPDX-License-Identifier: MIT
// The operations of MPI that a port has under way.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include "message_port.hpp"
#include "mpi_api.hpp"

namespace celerity {

/// Persistent receives for the frames that come from one rank with one tag. They are posted ahead, and complete in order.
template <typename Handle>
class mpi_inbox {
  public:
	/// `api` outlives this.
	mpi_inbox(const mpi_api<Handle>& api, rank_id source, int tag, std::size_t num_slots, std::size_t frame_bytes);

	rank_id source() const { return m_source; }
	int tag() const { return m_tag; }
	/// The receive that completes before all others.
	Handle next_receive() const { return m_receives[m_next]; }
	/// The frame in the next receive, which is complete; valid until advance().
	const std::byte* frame() const { return m_memory[m_next].data(); }
	/// Posts the receive of frame() again. Whether the one behind it is complete, too.
	bool advance();
	void close();

  private:
	const mpi_api<Handle>& m_api;
	const rank_id m_source;
	const int m_tag;
	std::vector<frame_content> m_memory;
	std::vector<Handle> m_receives;
	std::size_t m_next = 0;
	std::vector<std::byte> m_status;
};

/// Operations in the form in which MPI tests them. The first ones stay: each is the next receive of an inbox. One that is complete gives its place to the last.
template <typename Handle>
class mpi_operations {
  public:
	/// Who waits for an operation.
	enum class subject { nobody, request, settling };

	explicit mpi_operations(const mpi_api<Handle>& api) : m_api(api) {}

	/// Before the first track().
	void add_inbox(const Handle next_receive) {
		push(next_receive, {});
		++m_num_inboxes;
	}
	void replace_inbox(const std::size_t position, const Handle next_receive) { m_handles[position] = next_receive; }
	std::size_t num_inboxes() const { return m_num_inboxes; }
	/// `memory` stays alive until the operation is complete.
	void track(const Handle operation, const subject waiting, const request_id request = {}, frame_content memory = {}) {
		push(operation, {waiting, request, std::move(memory)});
	}
	std::size_t num_tracked() const { return m_handles.size() - m_num_inboxes; }

	/// The positions of the operations that are complete, in descending order; valid until the next call. Each of them is retired, or is that of an inbox.
	const std::vector<int>& test();
	/// Drops a complete operation.
	std::pair<subject, request_id> retire(std::size_t position);

  private:
	struct description {
		subject waiting = subject::nobody;
		request_id request;
		frame_content memory;
	};

	const mpi_api<Handle>& m_api;
	std::size_t m_num_inboxes = 0;
	std::vector<Handle> m_handles;
	std::vector<description> m_descriptions; ///< of the same positions
	std::vector<int> m_complete;
	std::vector<std::byte> m_statuses;

	void push(const Handle operation, description&& described) {
		m_handles.push_back(operation);
		m_descriptions.push_back(std::move(described));
	}
};

} // namespace celerity
