// SPDX-License-Identifier: MIT
// Reports the ranks for which this rank waits while MPI starts and connects them, and ends the process if one of them can never come. MPI does not return
// meanwhile, and may hold the interpreter lock. Therefore the watch has a thread of its own.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <sys/types.h>
#include <thread>

namespace celerity {

struct start_watch_options {
	std::string rank_variable; ///< of the environment; the launcher gives it to each process
	std::uint32_t rank = 0;
	std::uint32_t num_ranks = 0; ///< 0: not known
	bool is_one_host = false;    ///< all ranks run on this host
	std::set<std::uint32_t> awaited; ///< the ranks that have to come; empty: all
	std::chrono::milliseconds first_report{5000};
	/// The process ends if a rank of this host has neither come nor computed for so long, and in any case after `patience` times this; 0: never. Ranks of
	/// other hosts cannot be seen: they may be busy.
	std::chrono::milliseconds still_limit{60'000};
	static constexpr int patience = 5;
};

/// From construction until stop() this rank waits for the others.
class start_watch {
  public:
	explicit start_watch(start_watch_options options);
	start_watch(const start_watch&) = delete;
	start_watch& operator=(const start_watch&) = delete;
	~start_watch() { stop(); }

	/// Idempotent.
	void stop();

  private:
	struct neighbour {
		pid_t process = 0;
		bool is_waiting = false;
		std::uint64_t ticks = 0; ///< of processor time, of all processes with this rank
	};
	using neighbours = std::map<std::uint32_t, neighbour>; // by rank

	const start_watch_options m_options;
	std::mutex m_mutex;
	std::condition_variable m_changed;
	bool m_is_over = false;
	std::set<std::uint32_t> m_known; ///< ranks of this host, as far as they have been seen
	std::map<std::uint32_t, std::uint64_t> m_ticks; ///< of ranks that have not come, at the last look
	std::thread m_thread;            ///< the last member: it uses the others

	void run();
	/// False if the wait is over before.
	bool sleep_until(std::chrono::steady_clock::time_point time);
	/// The running ranks of this host that the same launcher has started. Empty if the processes cannot be seen.
	neighbours look_around() const;
	std::set<std::uint32_t> find_ended(const neighbours& here);
	/// Whether all ranks of this host that have not come stand still since the last look; false if there are none.
	bool are_still(const neighbours& here);
	/// Only the lowest rank that waits reports.
	bool is_speaker(const neighbours& here) const;
	void report(const neighbours& here, const std::set<std::uint32_t>& ended, std::chrono::steady_clock::duration waited, bool gives_up) const;
};

} // namespace celerity
