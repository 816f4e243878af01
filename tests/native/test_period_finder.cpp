// SPDX-License-Identifier: MIT
// Random programs with replays, planned with a finder of periods and without one: the same instructions in the same order, and each marked batch is what the
// executor relies upon: whole periods, of which all with one identity have the same operations, the same edges inside, and edges from outside in the same places.
// Arguments: [rounds] [seed]
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "check.hpp"
#include "scheduler/core/base/overloaded.hpp"
#include "scheduler/core/pipeline/period_finder.hpp"
#include "scheduler/core/pipeline/scheduling_pipeline.hpp"

using namespace celerity;

namespace {

constexpr coordinate extent = 64;

/// What the executor's graphs depend on. A graph of several periods is as large as the batch.
struct form {
	std::vector<std::string> operations; ///< of a period
	std::map<std::size_t, std::vector<std::vector<std::int64_t>>> edges; ///< by the number of periods: of each instruction; -1 from outside
};

std::string text_of(const std::span<const box> boxes) {
	std::string text;
	for(const box& b : boxes) {
		for(int d = 0; d < 3; ++d) text += std::to_string(b.min(d)) + ":" + std::to_string(b.max(d)) + ",";
	}
	return text;
}
std::string text_of(const allocation_id& id) { return std::to_string(id.memory.value) + "." + std::to_string(id.raw) + " "; }

/// Checks the batches that pass, and remembers their instructions.
class recorder final : public instruction_sink {
  public:
	explicit recorder(const std::map<std::uint64_t, std::uint64_t>& recorded) : m_recorded(recorded) {}

	void submit(instruction_batch&& batch) override {
		check(!batch.empty(), "a batch has instructions");
		for(const auto* const item : batch.instructions) {
			check(ids.empty() || ids.back() + 1 == item->id.value, "instructions keep their order, and none is lost");
			ids.push_back(item->id.value);
			texts.push_back(text_of(*item));
		}
		if(batch.replayed != nullptr) take_periods(batch);
	}

	std::vector<std::uint64_t> ids;
	std::vector<std::string> texts;
	std::size_t num_periods = 0;
	std::set<std::shared_ptr<const void>> identities;

  private:
	const std::map<std::uint64_t, std::uint64_t>& m_recorded;
	std::map<const void*, form> m_forms;

	std::string text_of(const instruction& item) const {
		std::string text = name_of(kind_of(item.operation)) + std::string(" ");
		std::visit(overloaded{
		               [&](const device_kernel_instruction& kernel) {
			               const auto recorded = m_recorded.find(kernel.submission.value);
			               text += std::to_string(recorded != m_recorded.end() ? recorded->second : 0) + ::text_of(std::span(&kernel.chunk, 1));
			               for(const auto& access : kernel.accesses) text += ::text_of(access.allocation) + ::text_of(access.accessed);
			               for(const auto& reduction : kernel.reductions) text += ::text_of(reduction.allocation);
		               },
		               [&](const copy_instruction& copy) { text += ::text_of(copy.source) + ::text_of(copy.destination) + ::text_of(copy.boxes); },
		               [](const auto&) {},
		           },
		    item.operation);
		return text;
	}

	void take_periods(const instruction_batch& batch) {
		const std::size_t size = batch.instructions.size() / batch.num_periods;
		check(size * batch.num_periods == batch.instructions.size() && batch.num_periods > 0, "a batch has whole periods");
		check(std::holds_alternative<horizon_instruction>(batch.instructions.back()->operation), "a period ends with a horizon");
		num_periods += batch.num_periods;
		identities.insert(batch.replayed);
		auto& known = m_forms[batch.replayed.get()];
		std::vector<std::vector<std::int64_t>> edges;
		const auto first = batch.instructions.front()->id.value;
		for(std::size_t i = 0; i < batch.instructions.size(); ++i) {
			const auto text = text_of(*batch.instructions[i]);
			if(known.operations.size() < size) known.operations.push_back(text);
			check(known.operations.at(i % size) == text, "all periods have the same operations");
			auto& of = edges.emplace_back();
			for(const auto id : batch.instructions[i]->dependencies) of.push_back(id.value < first ? -1 : static_cast<std::int64_t>(id.value - first));
		}
		const auto [same, is_new] = known.edges.try_emplace(batch.num_periods, edges);
		check(is_new || same->second == edges, "all batches of as many periods have the same edges");
	}
};

class program {
  public:
	program(const std::uint32_t seed, const bool finds)
	    : m_random(seed), m_record(m_recorded), m_finder(m_record), m_finds(finds),
	      m_pipeline(planning(), finds ? static_cast<instruction_sink&>(m_finder) : m_record, {}) {}

	const recorder& run() {
		for(std::size_t i = 0; i < 4; ++i) {
			buffer_info info;
			info.id = buffer_id(i + 1);
			info.dims = 1;
			info.extents = point{{extent, 1, 1}};
			info.element_size_bytes = info.element_alignment_bytes = 8;
			m_pipeline.create_buffer(info);
			submit({{info.id, access_mode::write, range_mapper::one_to_one()}}, 0);
		}
		for(int part = 0; part < 6; ++part) {
			const std::size_t kind = m_random() % 4;
			if(kind == 0) submit(random_accesses(), 0);
			if(kind == 1) wait();
			replay(kind == 2 && !m_recordings.empty() ? m_recordings[m_random() % m_recordings.size()] : record());
		}
		wait();
		return m_record;
	}

  private:
	using accesses = std::vector<buffer_access>;
	using recording = std::vector<std::pair<accesses, std::uint64_t>>;

	std::mt19937 m_random;
	std::map<std::uint64_t, std::uint64_t> m_recorded; ///< by submission
	recorder m_record;
	period_finder m_finder;
	const bool m_finds;
	scheduling_pipeline m_pipeline;
	std::vector<recording> m_recordings;
	std::uint64_t m_last_submission = 0, m_num_recorded = 0;

	pipeline_settings planning() {
		pipeline_settings result;
		result.horizons.step = 1 + m_random() % 4;
		return result;
	}

	accesses random_accesses() {
		accesses result;
		const std::size_t target = m_random() % 4;
		for(std::size_t i = 0; i < 4; ++i) {
			if(i == target) {
				result.push_back({buffer_id(i + 1), m_random() % 2 == 0 ? access_mode::read_write : access_mode::write, range_mapper::one_to_one()});
			} else if(m_random() % 2 == 0) {
				result.push_back({buffer_id(i + 1), access_mode::read, m_random() % 2 == 0 ? range_mapper::one_to_one() : range_mapper::all()});
			}
		}
		return result;
	}
	recording record() {
		recording made;
		for(std::size_t i = 1 + m_random() % 5; i > 0; --i) made.emplace_back(random_accesses(), ++m_num_recorded);
		m_recordings.push_back(made);
		return made;
	}
	void replay(const recording& todo) {
		for(std::size_t i = 1 + m_random() % 60; i > 0; --i) {
			for(const auto& [needed, number] : todo) submit(accesses(needed), number);
			const auto pause = m_random() % 100; // drawn with and without a finder
			if(pause == 0 && m_finds) m_finder.flush(); // the input has come to an end
		}
	}
	void submit(accesses&& needed, const std::uint64_t recorded) {
		auto node = std::make_shared<task>();
		node->submission = submission_id(++m_last_submission);
		node->geometry = {1, box::full(point{{extent, 1, 1}}), point{{1, 1, 1}}, split_kind::split_1d, 1, 0, true};
		node->accesses = std::move(needed);
		node->recorded = recorded;
		m_recorded[node->submission.value] = recorded;
		hand_in(std::move(node));
	}
	void wait() {
		auto node = std::make_shared<task>();
		node->submission = submission_id(++m_last_submission);
		node->kind = task_kind::epoch;
		hand_in(std::move(node));
	}
	void hand_in(std::shared_ptr<task> node) {
		if(m_finds) m_finder.note_task(*node);
		m_pipeline.submit(std::move(node));
	}
};

} // namespace

int main(const int argc, const char** const argv) {
	const int rounds = argc > 1 ? std::atoi(argv[1]) : 100;
	const auto seed = static_cast<std::uint32_t>(argc > 2 ? std::atoi(argv[2]) : 1);
	std::size_t num_periods = 0, num_identities = 0;
	for(std::uint32_t round = 0; round < static_cast<std::uint32_t>(rounds); ++round) {
		program with(seed + round, true), without(seed + round, false);
		const auto &found = with.run(), &plain = without.run();
		check(found.texts == plain.texts && found.ids == plain.ids, "a finder of periods changes no instruction");
		check(plain.num_periods == 0, "nothing else marks periods");
		num_periods += found.num_periods;
		num_identities += found.identities.size();
	}
	std::printf("%zu periods of %zu templates\n", num_periods, num_identities);
	check(num_periods > static_cast<std::size_t>(rounds) * 10, "replays have periods");
	check(num_identities < num_periods / 3, "periods recur");
	return 0;
}
