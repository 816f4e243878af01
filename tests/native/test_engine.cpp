// SPDX-License-Identifier: MIT
// The engine with random instructions and events in any order: after each call everything that it knows fits together, and every instruction ends.
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <set>
#include <vector>

#include "check.hpp"
#include "executor/core/engine/out_of_order_engine.hpp"

using namespace celerity;

namespace {

constexpr std::uint64_t num_instructions = 400;

class random_run {
  public:
	explicit random_run(const std::uint32_t seed)
	    : m_random(seed), m_options{static_cast<remote_waits>(pick(3)), pick(4) != 0, static_cast<kernel_order>(pick(3))},
	      m_num_queues(pick(2) == 0 ? 1 : max_queue_priority + 1), m_engine(make_classes(), m_options) {}

	void run() {
		while(m_last < num_instructions || m_engine.num_live() > 0) {
			const bool is_at_end = m_last == num_instructions;
			if(is_at_end) {
				m_engine.allow_remote_waits(true);
				m_engine.allow_lanes(true);
				m_engine.validate();
			}
			const std::uint64_t before = m_num_events;
			for(int i = 0; i < (is_at_end ? 10'000 : 8) && (m_num_events == before || !is_at_end); ++i) make_event(is_at_end);
			check(!is_at_end || m_num_events > before, "no instruction waits for ever");
		}
		check(m_num_completed == num_instructions, "every instruction completes once");
	}

  private:
	static constexpr int num_kinds = 6; // of events at the end
	std::mt19937 m_random;
	const engine_options m_options;
	const std::uint32_t m_num_queues;
	out_of_order_engine m_engine;
	std::uint64_t m_last = 0; ///< submitted
	std::uint64_t m_num_events = 0;
	std::uint64_t m_num_completed = 0;
	std::set<std::uint64_t> m_held, m_deferred, m_on_host, m_signalled;
	std::vector<std::uint64_t> m_enqueued; ///< by lane: positions that the lane may carry out
	std::vector<std::set<std::uint64_t>> m_unenqueued; ///< by lane: positions of m_deferred
	std::vector<lane_position> m_position_of = std::vector<lane_position>(num_instructions + 1);

	std::uint32_t pick(const std::uint32_t count) { return static_cast<std::uint32_t>(m_random() % count); }
	std::vector<lane_class> make_classes() {
		std::vector<lane_class> classes;
		for(std::uint32_t i = 0; i < 4; ++i) classes.push_back({lane_kind::compute, device_id(0), 1 + pick(3), i / 3, pick(3)});
		return classes;
	}

	void make_event(const bool is_at_end) {
		const auto kind = static_cast<int>(pick(num_kinds + 4));
		if(kind < num_kinds) return make_event(kind);
		if(is_at_end) return;
		if(kind < num_kinds + 2) return submit();
		if(kind == num_kinds + 2) {
			m_engine.allow_remote_waits(pick(3) != 0);
		} else {
			m_engine.allow_lanes(pick(3) != 0);
		}
		m_engine.validate();
	}
	void make_event(const int kind) {
		switch(kind) {
		case 0: return next();
		case 1: return with_one_of(m_held, [&](const instruction_id id) { m_engine.release(id, pick(2) != 0); });
		case 2:
			return with_one_of(m_deferred, [&](const instruction_id id) {
				m_unenqueued[m_position_of[id.value].lane].erase(m_position_of[id.value].sequence);
				m_engine.notify_issued(id);
			});
		case 3: return with_one_of(m_on_host, [&](const instruction_id id) { m_engine.complete(id); });
		case 4: return with_one_of(m_signalled, [&](const instruction_id id) { m_engine.complete(id); });
		default: return complete_lane();
		}
	}

	void submit() {
		if(m_last == num_instructions) return;
		const auto id = ++m_last;
		static constexpr std::array all{issue_policy::host, issue_policy::clock, issue_policy::plain, issue_policy::plain, issue_policy::launched,
		    issue_policy::deferred, issue_policy::signal, issue_policy::pull};
		issue_request request;
		request.id = instruction_id(id);
		request.key = {task_id(id), instruction_key::phase_type::work};
		request.policy = all[pick(m_options.remote == remote_waits::none ? 6 : 8)];
		request.priority = priority_of_queue(static_cast<queue_priority>(pick(m_num_queues))) + pick(4);
		request.lane_class = pick(static_cast<std::uint32_t>(m_engine.lanes().num_classes()));
		request.is_brief = pick(2) != 0;
		std::vector<instruction_id> dependencies;
		for(std::uint32_t i = pick(4); i > 0; --i) {
			const auto back = 1 + pick(12);
			if(back < id) dependencies.emplace_back(id - back);
		}
		request.dependencies = dependencies;
		if(request.policy == issue_policy::signal || request.policy == issue_policy::pull) m_held.insert(id);
		m_engine.submit(request);
		note();
	}

	void next() {
		issue issued;
		if(!m_engine.next(issued)) return m_engine.validate();
		if(issued.lane == no_lane) {
			m_on_host.insert(issued.id.value);
		} else {
			m_unenqueued.resize(m_engine.lanes().num_lanes());
			m_position_of[issued.id.value] = {issued.lane, issued.sequence};
			m_engine.for_each_live([&](const out_of_order_engine::live_instruction& live) {
				if(live.id != issued.id) return;
				if(live.policy == issue_policy::deferred) {
					m_deferred.insert(live.id.value);
					m_unenqueued[issued.lane].insert(issued.sequence);
				}
				if(live.policy == issue_policy::signal) m_signalled.insert(live.id.value);
			});
		}
		note();
	}

	/// In any order of lanes, as an event says no more than that the lane has come so far.
	void complete_lane() {
		const auto& open = m_engine.lanes().open_lanes();
		if(open.empty()) return;
		const auto lane = open[pick(static_cast<std::uint32_t>(open.size()))];
		auto last = m_engine.lanes().issued(lane);
		if(!m_unenqueued[lane].empty()) last = *m_unenqueued[lane].begin() - 1;
		const auto done = m_engine.lanes().completed(lane);
		if(last <= done) return;
		m_engine.complete_lane(lane, done + 1 + pick(static_cast<std::uint32_t>(last - done)));
		note();
	}

	void with_one_of(std::set<std::uint64_t>& ids, const auto& f) {
		if(ids.empty()) return;
		const auto chosen = std::next(ids.begin(), pick(static_cast<std::uint32_t>(ids.size())));
		const instruction_id id(*chosen);
		ids.erase(chosen);
		f(id);
		note();
	}

	void note() {
		m_engine.validate();
		++m_num_events;
		std::vector<out_of_order_engine::completed_instruction> completed;
		m_engine.take_completed(completed);
		for(const auto& item : completed) {
			++m_num_completed;
			const auto [lane, sequence] = m_position_of[item.id.value];
			for(auto* const ids : {&m_held, &m_deferred, &m_on_host, &m_signalled}) ids->erase(item.id.value);
			if(sequence > 0) m_unenqueued[lane].erase(sequence);
		}
	}
};

} // namespace

int main(const int argc, const char** const argv) {
	const int rounds = argc > 1 ? std::atoi(argv[1]) : 1000;
	for(int seed = 0; seed < rounds; ++seed) {
		random_run run(static_cast<std::uint32_t>(seed));
		run.run();
	}
	std::printf("%d random runs are consistent, and end\n", rounds);
	return 0;
}
