// SPDX-License-Identifier: MIT
// Notices at once if the process of another rank of this host ends. Launchers end all ranks within milliseconds then, before the executor could look.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>

#include <sys/types.h>

#include "memory/shared_memory.hpp"

namespace celerity {

/// The threads of two processes meet at a robust mutex in shared memory: one holds it as long as it lives, and the kernel wakes the other one when the thread
/// ends, which is before it closes the files by which a launcher notices the end. Without shared memory, a pidfd tells it later. If the system allows it, the
/// watcher also holds the connection of the other process to the launcher (that of MPICH), until the line is written.
class neighbour_watch {
  public:
	/// From now to stop() the process `watcher` can notice the end of this one. Throws std::runtime_error if the system has no thread left.
	neighbour_watch(std::uint32_t rank, pid_t watcher);
	neighbour_watch(const neighbour_watch&) = delete;
	neighbour_watch& operator=(const neighbour_watch&) = delete;
	/// In a forked child, which has no such thread, nothing happens.
	~neighbour_watch();

	/// For watch() of another rank.
	const std::string& path() const { return m_own.path(); }
	/// From now to stop() the process of rank `neighbour` must not end: then a line says so, unless it has written one, and the files of MPI are removed. Once.
	void watch(std::uint32_t neighbour, pid_t process, const std::string& path);
	/// Idempotent. Any thread, one at a time.
	void stop();

  private:
	const std::uint32_t m_rank;
	const pid_t m_owner;
	shared_memory m_own;
	shared_memory m_other;
	std::uint32_t m_neighbour = 0;
	pid_t m_process = 0;
	int m_process_file = -1; ///< pidfd
	int m_connection = -1;   ///< of the neighbour to the launcher
	std::atomic<bool> m_is_ready{false};      ///< the thread holds the mutex
	std::atomic<bool> m_has_neighbour{false}; ///< or stops without one
	std::atomic<bool> m_is_stopping{false};
	std::atomic<bool> m_is_done{false};
	std::unique_ptr<std::thread> m_thread;

	void run();
	void hold_connection();
	/// Whether the neighbour has ended. Returns also when it has stopped watching, or this rank has.
	bool wait_for_thread();
	bool wait_for_process();
	void report() const;
	void report_signal() const;
};

} // namespace celerity
