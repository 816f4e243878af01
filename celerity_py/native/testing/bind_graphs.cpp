// SPDX-License-Identifier: MIT
// Graph generation without threads or hardware, with everything recorded: for tests, and for people who want to look at a schedule.
#include <nanobind/nanobind.h>
#include <nanobind/stl/array.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <array>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "graph_records.hpp"
#include "look_up.hpp"
#include "named_tuple.hpp"
#include "scheduler/core/base/ensure.hpp"
#include "scheduler/core/graphs/cut_choice.hpp"
#include "scheduler/core/graphs/deep_halos.hpp"
#include "scheduler/core/pipeline/scheduling_pipeline.hpp"
#include "submit/task_building.hpp"
#include "testing_bindings.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace celerity::native {
namespace {

/// One rank's pipeline, driven by hand. Each event is followed by validate(), which looks at all buffers, unless costs are measured.
class graph_context final : public instruction_sink {
  public:
	graph_context(const pipeline_settings& settings, const bool validates, const std::uint32_t batch_seed)
	    : m_validates(validates), m_batch_seed(batch_seed), m_random(batch_seed),
	      m_partition{settings.capabilities.num_ranks, settings.capabilities.local_rank, settings.capabilities.num_devices},
	      m_pipeline(settings, *this,
	          pipeline_observers{[this](task_record&& r) { m_tasks.push_back(std::move(r)); },
	              [this](command_record&& r) { m_commands.push_back(std::move(r)); }, {},
	              [this](planning_notice&& notice) { m_notices.push_back(std::move(notice)); }}) {}

	graph_context(const graph_context&) = delete;
	graph_context& operator=(const graph_context&) = delete;

	void submit(instruction_batch&& batch) override {
		m_instructions.insert(m_instructions.end(), batch.instructions.begin(), batch.instructions.end());
		if(batch.replayed == nullptr) return;
		++m_replayed[batch.replayed];
		if(batch.loop == nullptr) return;
		note_shape(batch);
		if(m_random() % 200 == 0) batch.loop->is_refused = true;
	}
	bool takes_periods() const override { return m_batch_seed > 0; }

	std::uint64_t create_buffer(buffer_info info) {
		info.id = buffer_id(++m_last_buffer);
		m_buffers.emplace(info.id, info);
		m_pipeline.create_buffer(info);
		check();
		return info.id.value;
	}
	void destroy_buffer(const std::uint64_t id) {
		m_pipeline.destroy_buffer(buffer_id(id));
		check();
		m_buffers.erase(buffer_id(id));
	}
	std::uint64_t submit_task(task submitted, const point& reach) {
		if(submitted.kind == task_kind::device_kernel || submitted.kind == task_kind::host_task) {
			const auto find_buffer = [this](const buffer_id id) -> const buffer_info& { return m_buffers.at(id); };
			choose_cuts(submitted, m_partition, find_buffer);
			check_accesses(submitted, m_partition, find_buffer);
		}
		submitted.geometry.reach = reach;
		submitted.submission = submission_id(++m_last_submission);
		m_pipeline.submit(std::make_shared<task>(std::move(submitted)));
		check();
		return m_last_submission;
	}
	std::uint64_t replay(const std::shared_ptr<const recorded_program>& program, const std::uint32_t repetitions, const std::size_t phase) {
		const submission_id first(m_last_submission + 1);
		m_last_submission += program->tasks_per_repetition() * repetitions;
		m_pipeline.replay(program, first, repetitions, phase, 0, false);
		check();
		return m_last_submission;
	}
	std::shared_ptr<recorded_program> record(std::vector<task> tasks, const std::vector<point>& reaches) const {
		const auto find_buffer = [this](const buffer_id id) -> const buffer_info& { return m_buffers.at(id); };
		for(task& each : tasks) choose_cuts(each, m_partition, find_buffer);
		if(reaches.empty()) return std::make_shared<recorded_program>(std::move(tasks));
		std::vector<task> of_all_phases;
		for(const point& reach : reaches) {
			of_all_phases.push_back(tasks[of_all_phases.size() % tasks.size()]);
			of_all_phases.back().geometry.reach = reach;
		}
		return std::make_shared<recorded_program>(std::move(of_all_phases), reaches.size() / tasks.size());
	}
	deep_halos find_halos(std::vector<task> tasks) const {
		const auto find_buffer = [this](const buffer_id id) -> const buffer_info& { return m_buffers.at(id); };
		for(task& each : tasks) choose_cuts(each, m_partition, find_buffer);
		return plan_deep_halos(tasks, m_partition, find_buffer);
	}
	std::vector<box> chunks_for(const task& shape) const { return all_chunks(shape, m_partition); }
	void flush() {
		m_pipeline.flush();
		check();
	}
	void notify_epoch_reached(const std::uint64_t id) {
		m_pipeline.notify_epoch_reached(task_id(id));
		check();
	}
	const scheduling_pipeline& pipeline() const { return m_pipeline; }
	std::uint64_t next_submission() const { return m_last_submission + 1; }

	std::uint64_t num_periods() const { return m_num_periods; }
	std::vector<std::uint64_t> replayed_batches() const {
		std::vector<std::uint64_t> counts;
		for(const auto& [identity, count] : m_replayed) counts.push_back(count);
		return counts;
	}

	nb::list take_tasks() { return take(m_tasks); }
	nb::list take_commands() { return take(m_commands); }
	nb::list take_instructions() { return take(m_instructions); }
	nb::object take_notices() { return to_named(std::exchange(m_notices, {})); }

  private:
	/// Of an instruction of a period of a plain loop: its kind, and its dependencies within the period, relative to it.
	using shape = std::pair<std::size_t, std::vector<std::uint64_t>>;

	void check() {
		const auto choice = m_batch_seed > 0 ? m_random() % 32 : 0; // as if the scheduler held the batch for some time
		if(choice == 0) m_pipeline.batches().release();
		if(choice < 8) m_pipeline.batches().release_whole();
		if(m_validates) m_pipeline.validate();
	}
	void note_shape(const instruction_batch& batch) {
		const auto size = batch.instructions.size() / batch.num_periods;
		ensure(batch.instructions.size() % batch.num_periods == 0, "a batch of a loop has whole periods");
		auto& known = m_shapes[batch.replayed];
		for(std::size_t i = 0; i < batch.instructions.size(); ++i) {
			const auto& item = *batch.instructions[i];
			ensure(item.id.value == batch.instructions.front()->id.value + i, "a batch of a loop has consecutive ids");
			ensure(!std::holds_alternative<fence_instruction>(item.operation) && !std::holds_alternative<epoch_instruction>(item.operation),
			    "no batch of a loop holds back what the program waits for");
			shape made{item.operation.index(), {}};
			for(const auto on : item.dependencies) {
				if(item.id.value - on.value <= i % size) made.second.push_back(item.id.value - on.value);
			}
			if(known.size() < size) known.push_back(made);
			ensure(known[i % size] == made, "the periods of a loop have the same shape");
		}
		ensure(known.size() == size, "the periods of a loop have the same size");
		m_num_periods += batch.num_periods;
	}
	template <typename Record>
	static nb::list take(std::vector<Record>& records) {
		nb::list result;
		for(const auto& record : records) result.append(to_dict(record));
		records.clear();
		return result;
	}

	bool m_validates;
	std::uint32_t m_batch_seed; ///< 0: everything is handed over at once
	std::minstd_rand m_random;
	std::unordered_map<std::shared_ptr<const void>, std::vector<shape>> m_shapes; ///< of periods of plain loops
	std::uint64_t m_num_periods = 0;
	partition m_partition;
	std::vector<task_record> m_tasks;
	std::vector<command_record> m_commands;
	std::vector<const instruction*> m_instructions;
	std::unordered_map<std::shared_ptr<const void>, std::uint64_t> m_replayed; ///< keeps the identities, so that none stands for two templates
	std::vector<planning_notice> m_notices;
	std::unordered_map<buffer_id, buffer_info> m_buffers;
	std::uint64_t m_last_buffer = 0;
	std::uint64_t m_last_submission = 0;
	scheduling_pipeline m_pipeline; // last: emits the initial epoch into the members above
};

} // namespace

void bind_graphs(nb::module_& m) {
	named_tuple<planning_notice>::share("PlanningNotice");
	m.attr("COPY_REASONS") = all_names<copy_reason>();
	m.attr("INSTRUCTION_KINDS") = all_names<instruction_kind>();
	nb::class_<recorded_program>(m, "RecordedProgram", "Tasks that GraphContext.replay repeats.")
	    .def(nb::new_([](const std::vector<task>& tasks) { return std::make_shared<recorded_program>(tasks); }), "tasks"_a);
	nb::class_<graph_context>(m, "GraphContext", "The graphs of one rank, generated step by step on the calling thread and recorded.")
	    .def(nb::init<const pipeline_settings&, bool, std::uint32_t>(), "planning"_a, "validates"_a = true, "batch_seed"_a = 0,
	        "With a seed, batches of plain loops are collected for times that are drawn.")
	    .def_prop_ro("batched_periods", &graph_context::num_periods, "Of plain loops, in batches that devices may carry out as graphs.")
	    .def("create_buffer", &graph_context::create_buffer, "info"_a)
	    .def("destroy_buffer", &graph_context::destroy_buffer, "buffer"_a)
	    .def(
	        "chunks_for", [](const graph_context& self, const task& node) { return with_dims(self.chunks_for(node), node.geometry.dims); }, "task"_a)
	    .def(
	        "submit", [](graph_context& self, task node, const std::array<coordinate, 3>& reach) { return self.submit_task(std::move(node), point{reach}); },
	        "task"_a, "reach"_a = std::array<coordinate, 3>{}, "reach: of a replicated execution, per dimension.")
	    .def(
	        "record",
	        [](const graph_context& self, std::vector<task> tasks, const std::vector<std::array<coordinate, 3>>& reaches) {
		        std::vector<point> taken;
		        for(const auto& each : reaches) taken.push_back(point{each});
		        return self.record(std::move(tasks), taken);
	        },
	        "tasks"_a, "reaches"_a, "A program of as many phases as there are reaches for each task, phase after phase.")
	    .def(
	        "find_halos",
	        [](const graph_context& self, std::vector<task> tasks) {
		        const auto found = self.find_halos(std::move(tasks));
		        std::vector<std::array<coordinate, 3>> reaches;
		        for(const point& each : found.reaches) reaches.push_back(each.v);
		        return std::tuple(name_of(found.kind), reaches, found.growth, found.work);
	        },
	        "tasks"_a, "Of tasks that ask for deep halos: (kind of answer, reaches, growth of a share, work of all).")
	    .def("replayed_batches", &graph_context::replayed_batches, "How many batches there were of each identity, in no order.")
	    .def("replay", &graph_context::replay, "program"_a, "repetitions"_a, "phase"_a = 0, "Submits the tasks of the program again and again.")
	    .def_prop_ro("expanded_repetitions", [](const graph_context& self) { return self.pipeline().counts().expanded_repetitions; })
	    .def_prop_ro("repeated_tasks", [](const graph_context& self) { return self.pipeline().counts().repeated_tasks; })
	    .def("next_submission", &graph_context::next_submission)
	    .def("flush", &graph_context::flush)
	    .def("notify_epoch_reached", &graph_context::notify_epoch_reached, "task"_a,
	        "The horizon or epoch with this task id was executed. Take the instructions before it first.")
	    .def("take_tasks", &graph_context::take_tasks, nb::sig("def take_tasks(self) -> list[dict[str, typing.Any]]"), "Records since the last call.")
	    .def("take_commands", &graph_context::take_commands, nb::sig("def take_commands(self) -> list[dict[str, typing.Any]]"), "Records since the last call.")
	    .def("take_instructions", &graph_context::take_instructions, nb::sig("def take_instructions(self) -> list[dict[str, typing.Any]]"),
	        "Records since the last call.")
	    .def("take_notices", &graph_context::take_notices, nb::sig("def take_notices(self) -> list[celerity_py._native.PlanningNotice]"),
	        "Since the last call.");
}

} // namespace celerity::native
