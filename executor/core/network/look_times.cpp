// SPDX-License-Identifier: MIT
#include "look_times.hpp"

#include <algorithm>

namespace celerity {

namespace {

using namespace std::chrono_literals;
using std::chrono::nanoseconds;

constexpr nanoseconds tight = 300us;         // after progress, with cores to spare: the next message is likely close
constexpr nanoseconds tight_shared = 100us;  // after progress, with one core per rank
constexpr int patience = 8;                  // wait for this part of the wait so far: a message is late by at most this part
constexpr nanoseconds shortest_wait = 20us;
constexpr nanoseconds longest_wait = 2ms;
constexpr nanoseconds direct_wait = 50us;    // some awaited data comes through shared memory, which needs no look at the network
constexpr nanoseconds quiet_wait = 400us;    // all of it seems to, because the network has been quiet for a while
constexpr nanoseconds quiet_after = 5ms;
constexpr nanoseconds moving_look = 2us;     // longer than an idle look takes: a copy of some 16 KiB
constexpr int direct_patience = 16;          // as above, of the time for which the network has been quiet
constexpr nanoseconds idle_wait = 50ms;      // nothing awaited: only failures of other ranks can come

nanoseconds tight_time(const double cores_per_rank) { return cores_per_rank >= 2 ? tight : cores_per_rank >= 1 ? tight_shared : 0ns; }

/// The least wait where data also comes in other ways than through the network.
nanoseconds least_wait(const look_settings& settings, const look_facts& facts) {
	if(!settings.has_other_ways) return 0ns;
	if(facts.since_arrival <= quiet_after) return direct_wait;
	if(settings.spins || facts.has_requests) return quiet_wait;
	return std::min(std::max(facts.since_arrival / direct_patience, quiet_wait), longest_wait);
}

} // namespace

bool has_moved_data(const nanoseconds look, const nanoseconds shortest_look) { return look > 2 * shortest_look + moving_look; }

nanoseconds time_to_next_look(const look_settings& settings, const look_facts& facts) {
	if(!facts.is_awaiting) return idle_wait;
	if(facts.has_requests && facts.since_move == 0ns) return 0ns; // a large message progresses while somebody looks, so this is no wait
	const auto least = least_wait(settings, facts);
	if(settings.spins || facts.since_progress < tight_time(settings.cores_per_rank)) return least;
	const auto waited = facts.has_requests ? std::min(facts.since_progress, facts.since_move) : facts.since_progress;
	return std::max(least, std::clamp(waited / patience, shortest_wait, longest_wait));
}

} // namespace celerity
