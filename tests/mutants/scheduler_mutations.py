# SPDX-License-Identifier: MIT
"""Mistakes somebody could make in the core of the scheduler."""

from __future__ import annotations

from tests.mutants.mutation import Mutation

COMMANDS = "scheduler/core/graphs/command_graph.cpp"
COHERENCE = "scheduler/core/instruction_graph/coherence.cpp"
SOURCES = "scheduler/core/instruction_graph/copy_sources.cpp"
EMISSION = "scheduler/core/instruction_graph/instruction_builder.cpp"
BUILDER = "scheduler/core/instruction_graph/instruction_builder.hpp"
TASKS = "scheduler/core/instruction_graph/instruction_graph_tasks.cpp"
MEMORY = "scheduler/core/instruction_graph/rank_memory.cpp"
TRANSFERS = "scheduler/core/instruction_graph/transfers.cpp"
COPIES = "scheduler/core/replay/instruction_copies.cpp"
STATE = "scheduler/core/replay/graph_state.hpp"
GRAPHS = "scheduler/core/replay/plan_graphs.hpp"
REPLAYER = "scheduler/core/replay/replayer.cpp"
TEMPLATES = "scheduler/core/replay/replay_template.cpp"
REPEATER = "scheduler/core/replay/plan_repeater.cpp"
STREAM = "scheduler/core/replay/task_stream.cpp"
SEARCH = "scheduler/core/replay/loop_search.cpp"
LOOPS = "scheduler/core/replay/loop_replayer.cpp"
BATCHES = "scheduler/core/replay/loop_batches.cpp"
WINDOW = "scheduler/core/graphs/dependency_window.hpp"
SPLIT = "scheduler/core/geometry/split.cpp"
CHUNKS = "scheduler/core/graphs/local_chunks.cpp"
CUTS = "scheduler/core/graphs/cut_choice.cpp"

SCHEDULER_MUTATIONS = (
    Mutation(
        "what a rank computes of others counts as its own",
        COMMANDS,
        "[](local_state& state) { state.is_replicated = true; });\n\t\tfor",
        "[](local_state&) {});\n\t\tfor",
    ),
    Mutation(
        "owners send what others have computed again",
        COMMANDS,
        "[=](local_state& state) { state.holders.add(rank_id(static_cast<std::uint32_t>(r))); });",
        "[](local_state&) {});",
    ),
    Mutation(
        "owners believe that others compute their borders on all sides of the task",
        COMMANDS,
        "region_intersection(own, map_access(node, access, buffer, computed_by(r)));",
        "own;",
    ),
    Mutation(
        "the lower border of a share lacks a row",
        CHUNKS,
        "low[d] -= geometry.reach[d];",
        "low[d] -= std::max<coordinate>(geometry.reach[d], 1) - 1;",
    ),
    Mutation(
        "devices compute their own shares only",
        CHUNKS,
        "const box computed = geometry.is_replicated() ? with_reach(geometry, shares[d]) : shares[d];",
        "const box computed = shares[d];",
    ),
    Mutation(
        "all devices have what the first one has computed",
        TASKS,
        "buffer.contents.modify(plan.accessed(a, c), [&]",
        "buffer.contents.modify(plan.accessed(a, 0), [&]",
    ),
    Mutation(
        "each repetition has the borders of the first step",
        REPLAYER,
        "const auto tasks = program.repetition(phase);",
        "const auto tasks = program.repetition(0 * phase);",
    ),
    Mutation(
        "a template serves each step between two exchanges of halos",
        REPLAYER,
        "state.push_back(m_phase);",
        "",
    ),
    Mutation(
        "side effects are not ordered in the instruction graph",
        TASKS,
        "execution.follow_side_effects(node);",
        "",
    ),
    Mutation(
        "side effects are not ordered in the command graph",
        COMMANDS,
        "if(runs_task(operation)) m_side_effects.append(node->side_effects, m_window);",
        "",
    ),
    Mutation(
        "the fence of a host object does not wait for its users",
        TASKS,
        "fence.follow_side_effects(node);",
        "",
    ),
    Mutation(
        "side effects on an object are ordered behind the first one only",
        WINDOW,
        "last = window.current();",
        "if(last == window.epoch()) last = window.current();",
    ),
    Mutation(
        "only the first host object of a task is ordered",
        WINDOW,
        "for(const host_object_id object : objects) {",
        "for(const host_object_id object : objects.first(objects.empty() ? 0 : 1)) {",
    ),
    Mutation(
        "a forgotten side effect is not replaced by the epoch",
        WINDOW,
        "m_last.try_emplace(object, window.epoch())",
        "m_last.try_emplace(object, Id{})",
    ),
    Mutation(
        "side effects younger than the epoch are forgotten",
        WINDOW,
        "return chain.second < epoch;",
        "return chain.second < epoch || chain.second >= epoch;",
    ),
    Mutation(
        "write after read is not ordered in the command graph",
        COMMANDS,
        "if(is_producer(access.mode)) state.front.depend_for_write(m_window);",
        "if(is_producer(access.mode)) state.front.depend_for_read(m_window);",
    ),
    Mutation(
        "write after read is not ordered in the instruction graph",
        EMISSION,
        "if(is_producer(mode)) f.depend_for_write(window());",
        "if(is_producer(mode)) f.depend_for_read(window());",
    ),
    Mutation(
        "kernels and receives do not wait for readers of the old data",
        EMISSION,
        "if(is_producer(mode)) f.depend_for_write(window());",
        "if(is_producer(mode)) produced != nullptr ? f.depend_for_read(window()) : f.depend_for_write(window());",
    ),
    Mutation(
        "copies do not wait for readers of the old data",
        EMISSION,
        "if(is_producer(mode)) f.depend_for_write(window());",
        "if(is_producer(mode)) produced == nullptr ? f.depend_for_read(window()) : f.depend_for_write(window());",
    ),
    Mutation(
        "nobody waits for readers",
        EMISSION,
        "if(!is_write) allocation->accesses.modify(*where, [&](instruction_front& f) { return f.add_reader(self); });",
        "",
    ),
    Mutation(
        "nobody waits for copies",
        EMISSION,
        "allocation->accesses.update(*where, instruction_front{self, {}});",
        "if(produced != nullptr) allocation->accesses.update(*where, instruction_front{self, {}});",
    ),
    Mutation(
        "staging memory counts as free while it is used",
        EMISSION,
        "for(auto* const staging : m_staging) staging->uses.push_back(self);",
        "",
    ),
    Mutation(
        "an await-push does not wait for readers of the old data",
        COMMANDS,
        "if(is_producer(access.mode)) state.front.depend_for_write(m_window);",
        "if(is_producer(access.mode) && !is_replicated) state.front.depend_for_write(m_window);",
    ),
    Mutation(
        "stale data counts as fresh",
        COMMANDS,
        "if(!state.is_fresh) stale.push_back(part);",
        "if(!state.is_fresh && state.is_replicated) stale.push_back(part);",
    ),
    Mutation(
        "replicas survive a write",
        COMMANDS,
        "local_state{{self, {}}, true, is_replicated, {}}",
        "local_state{{self, {}}, true, is_replicated, [&] { rank_set all; all.add_first(m_num_ranks); return all; }()}",
    ),
    Mutation(
        "data is pushed to ranks that have it",
        COMMANDS,
        "if(!state.holders.contains(targets[t])) m_missing[t].push_back(part);",
        "m_missing[t].push_back(part);",
    ),
    Mutation(
        "copies are pushed like owned data",
        COMMANDS,
        "if(!state.is_fresh || state.is_replicated) return;",
        "if(!state.is_fresh) return;",
    ),
    Mutation(
        "every rank includes the current value in a reduction",
        COMMANDS,
        "adds_current_value(), m_shares.are_several()};",
        "true, m_shares.are_several()};",
    ),
    Mutation(
        "reductions do not tell callables apart",
        TASKS,
        "reduction.callable},",
        "0},",
    ),
    Mutation(
        "a device that combines finds the old value in host memory only",
        TASKS,
        "if(includes_current) m_requirements.reads.push_back({memory, region(buffer.domain)});",
        "if(includes_current) m_requirements.reads.push_back({host_memory, region(buffer.domain)});",
        more=(
            (
                "require(memory, buffer.domain);",
                "require(memory, buffer.domain), require(host_memory, buffer.domain);",
            ),
        ),
    ),
    Mutation(
        "the reductions of a task gather in the same array",
        TASKS,
        "if(local.num_partials < 2) return;",
        "if(local.num_partials < 2) return;\n\tif(local.gather == nullptr && !m_staging[local.memory.value].empty()) "
        "local.gather = &m_staging[local.memory.value].back();",
    ),
    Mutation(
        "partial results of an array are copied before those in their place are combined",
        TASKS,
        "gather.ready = self;",
        "",
        limit=2000,
    ),
    Mutation(
        "of many partial results of an array, those that are combined already get lost",
        TASKS,
        "std::exchange(local.num_collected, 1)",
        "std::exchange(local.num_collected, 0)",
        limit=2000,
    ),
    Mutation(
        "a horizon misses one member of the front",
        WINDOW,
        "for(std::uint64_t value = std::max(m_front_begin, m_base); value < self; ++value) {",
        "for(std::uint64_t value = std::max(m_front_begin, m_base); value + 1 < self; ++value) {",
    ),
    Mutation(
        "readers before an applied horizon are forgotten",
        WINDOW,
        "if(dropped && (kept > 0 || is_settled)) readers.push_back(epoch);",
        "if(dropped && is_settled) readers.push_back(epoch);",
    ),
    Mutation(
        "readers of what was written before the last epoch are forgotten at a horizon",
        WINDOW,
        "if(dropped && (kept > 0 || is_settled)) readers.push_back(epoch);",
        "if(dropped && kept > 0) readers.push_back(epoch);",
    ),
    Mutation(
        "what was written after the last epoch counts as written before it",
        WINDOW,
        "settled < epoch && writer <= settled;",
        "settled < epoch;",
    ),
    Mutation(
        "a reader replaces the readers before it",
        WINDOW,
        "readers.push_back(reader);",
        "readers.clear(), readers.push_back(reader);",
    ),
    Mutation(
        "staging memory is reused too early",
        MEMORY,
        "[&](const instruction_id use) { return use < m_history.window.epoch(); }",
        "[&](const instruction_id use) { return use < m_window.current(); }",
    ),
    Mutation(
        "a resize loses a live part",
        MEMORY,
        "if((content.up_to_date & bit_of(memory)) != 0) live.push_back(part);",
        "if((content.up_to_date & bit_of(memory)) != 0 && live.empty()) live.push_back(part);",
    ),
    Mutation(
        "memory is freed before the last read",
        BUILDER,
        "allocation.accesses.for_each([&](const box&, const instruction_front& f) { f.depend_for_write(window()); });",
        "allocation.accesses.for_each([&](const box&, const instruction_front& f) { f.depend_for_read(window()); });",
    ),
    Mutation(
        "too much counts as overwritten in a resize",
        TASKS,
        "m_requirements.discarded = region_difference(produced, consumed);",
        "m_requirements.discarded = region(region_union(produced, consumed).bounding_box());",
    ),
    Mutation(
        "parts of a periodic access have no memory",
        TASKS,
        "for(const box& wanted : boxes_in_memory(node.accesses[a], where)) require(plan.chunks[c].memory, wanted);",
        "require(plan.chunks[c].memory, boxes_in_memory(node.accesses[a], where)[0]);",
    ),
    Mutation(
        "a periodic access counts in its first part only",
        TASKS,
        "execution.access(buffer, *allocation, m_bound_parts.back(), access.mode);",
        "if(parts.size() == 1) execution.access(buffer, *allocation, m_bound_parts.back(), access.mode);",
    ),
    Mutation(
        "received data leaves stale copies valid",
        TRANSFERS,
        "buffer.contents.modify(await.awaited, [](content_state& state) { state.up_to_date = 0; });",
        "",
    ),
    Mutation(
        "what other ranks wrote does not become stale",
        COMMANDS,
        "lose(buffer, has_share ? region_difference(written, m_local_accesses[i].where) : written);",
        "if(!has_share) lose(buffer, written);",
    ),
    Mutation(
        "data is copied from host memory, though it is stale there",
        SOURCES,
        "std::uint64_t rest = state.up_to_date;",
        "std::uint64_t rest = state.up_to_date | bit_of(host_memory);",
    ),
    Mutation(
        "what no part of a chunk reads is not received from direct peers",
        TRANSFERS,
        "if(!unread.empty()) { // no device",
        "if(false) { // no device",
    ),
    Mutation(
        "what no part of a chunk reads is never awaited of a split receive",
        TRANSFERS,
        "!unread.empty()) parts.push_back(std::move(unread));",
        "false) parts.push_back(std::move(unread));",
    ),
    Mutation(
        "a write of some elements drops the shares of a reduction of an array",
        COMMANDS,
        "return !written.empty() && !region_difference(region(buffer.domain), written).empty()",
        "return written.empty() && !region_difference(region(buffer.domain), written).empty()",
        limit=2000,
    ),
    Mutation(
        "partial results of arrays meet one element apart",
        TASKS,
        "slot * bytes_of_partial(buffer)",
        "slot * buffer.info.element_size_bytes",
    ),
    Mutation(
        "a write that is clamped to nothing drops the shares of a reduction",
        COMMANDS,
        "if(written.empty()) continue; // clamped to nothing",
        "",
    ),
    Mutation(
        "a fence does not wait for one of its copies",
        TASKS,
        "for(const instruction_id copy : copies) fence.follow(copy);",
        "for(std::size_t i = 1; i < copies.size(); ++i) fence.follow(copies[i]);",
    ),
    Mutation(
        "a fence to a device takes data of all devices as if they reached each other",
        TASKS,
        "!m_sources.can_copy(state, m_sources.select(state, destination), destination)",
        "!m_sources.can_copy(state, m_sources.select(state, user_memory), user_memory)",
    ),
    Mutation(
        "an array of the user on a device is copied as if it lay on the host",
        COHERENCE,
        "m_capabilities.can_copy(from.id.memory, destination)",
        "m_capabilities.can_copy(memory, destination)",
    ),
    Mutation(
        "a peer fetches from an array of the user",
        TRANSFERS,
        "return source == user_memory ? host_memory : source;",
        "return source;",
    ),
    Mutation(
        "every rank seems to have the initial contents of all ranks",
        COMMANDS,
        "initial.is_fresh = rank == m_local_rank.value;",
        "initial.is_fresh = true;",
    ),
    Mutation(
        "initial contents of one rank seem to be with all ranks",
        COMMANDS,
        "initial.holders = rank_set();",
        "",
    ),
    Mutation(
        "a split receive does not wait for readers of the old data",
        TRANSFERS,
        "receive.write(destination, arriving);",
        "",
    ),
    Mutation(
        "shares are gathered before the own one was pushed",
        COMMANDS,
        "if(is_producer(access.mode)) state.front.depend_for_write(m_window);",
        "if(is_producer(access.mode) && operation.index() != 5) state.front.depend_for_write(m_window);",
    ),
    Mutation(
        "a buffer dies before work that is held back",
        "scheduler/core/pipeline/scheduling_pipeline.cpp",
        "m_held.emplace_back(destroy_event{id});",
        "m_instructions.destroy_buffer(id, m_batch);",
    ),
    Mutation(
        "a split receive loses a reader",
        TRANSFERS,
        "if(region unread = find_rest(arriving, parts); !unread.empty()) parts.push_back(std::move(unread));",
        "if(parts.size() > 2) parts.pop_back();",
    ),
    Mutation(
        "a split is off by one",
        SPLIT,
        "point{{split_0.begin(i + 1), split_1",
        "point{{split_0.begin(i + 1) + (i + 1 < by.chunks[0] ? 1 : 0), split_1",
    ),
    Mutation(
        "several parts of an index space begin at 0, though fills and copies of boxes begin elsewhere",
        SPLIT,
        ": m_min(space.min(dim))",
        ": m_min(count > 1 ? 0 : space.min(dim))",
    ),
    Mutation(
        "a split loses the last part of the third dimension",
        SPLIT,
        "for(coordinate k = 0; k < by.chunks[2]; ++k) {",
        "for(coordinate k = 0; k < std::max<coordinate>(1, by.chunks[2] - 1); ++k) {",
    ),
    Mutation(
        "a weighted split loses what is no multiple of the granularity",
        SPLIT,
        "return block == num_blocks ? space.max(0) : ",
        "return ",
    ),
    Mutation(
        "ranks without items count as contributors of reductions",
        "scheduler/core/graphs/local_chunks.hpp",
        "if(!of(rank).empty()) ranks.emplace_back(",
        "ranks.emplace_back(",
        limit=2000,
    ),
    Mutation(
        "each rank reads the first block of a cyclic split only",
        COMMANDS,
        "return map_chunks(share, [&](const box& chunk) { return map_access(node, access, buffer, chunk); });",
        "return map_access(node, access, buffer, share.front());",
    ),
    Mutation(
        "the last block of a cyclic split is dealt to nobody",
        CHUNKS,
        "for(std::size_t b = first_of(r); b < blocks.size(); b += num_ranks)",
        "for(std::size_t b = first_of(r); b + (num_ranks > 2 ? 1 : 0) < blocks.size(); b += num_ranks)",
    ),
    Mutation(
        "a dimension is cut though chunks then access what others write",
        CUTS,
        "if(probe.is_forbidden(by)) {",
        "if(false) {",
    ),
    Mutation(
        "of small pieces that arrive together the last one is lost",
        TRANSFERS,
        "whole = region_union(whole, arrival.where);",
        "if(count == 0 || &arrival != &arrivals.back()) whole = region_union(whole, arrival.where);",
    ),
    Mutation(
        "what is gathered is not read",
        COHERENCE,
        "gather.read(*allocations[i], sources[i].where);",
        "",
    ),
    Mutation(
        "what is gathered is not written",
        COHERENCE,
        "gather.write(*target, missing);",
        "",
    ),
    Mutation(
        "an instruction from a template depends on one that is too old by one",
        REPEATER,
        "instruction_id(on.value + by.instructions)",
        "instruction_id(on.value + by.instructions - 1)",
    ),
    Mutation(
        "side effects behind a template do not wait for those that come from it",
        WINDOW,
        "walk.id(last);",
        "",
    ),
    Mutation(
        "messages from a template have the numbers of its first period",
        COPIES,
        "void move(message_id& id, const plan_position& by) { id.value += by.messages; }",
        "void move(message_id&, const plan_position&) {}",
    ),
    Mutation(
        "an instruction from a template does not depend on the last epoch, but on a later instruction",
        REPEATER,
        "on == settled ? m_graphs.instructions.settled() : instruction_id(on.value + by.instructions)",
        "instruction_id(on.value + by.instructions)",
    ),
    Mutation(
        "transfers from a template have the tasks of its first period",
        COPIES,
        "move(transfer.consumer, by);",
        "",
    ),
    Mutation(
        "states are compared without the readers of data",
        WINDOW,
        "for(Id& reader : readers) walk.id(reader);",
        "if constexpr(requires { walk.hidden(); }) walk.hidden(); else if(!readers.empty()) walk.id(readers.back());",
    ),
    Mutation(
        "states are compared without the place of recent nodes, and so without the phase of horizons",
        STATE,
        "if(value.value >= m_epoch) return number((m_next - value.value) << 2U | 1U);",
        "if(value.value >= m_epoch) return number(1U);",
        more=(
            ("void base(const std::uint64_t value) { number(m_next - value); }", "void base(const std::uint64_t) {}"),
        ),
    ),
    Mutation(
        "the instruction graph does not learn what has come from a template",
        GRAPHS,
        "instructions.walk_state(of_instructions, buffers);",
        "",
    ),
    Mutation(
        "the command graph does not learn what has come from a template",
        GRAPHS,
        "commands.walk_state(of_commands, buffers);",
        "",
    ),
    Mutation(
        "a fence from a template writes into the memory of its first period",
        REPEATER,
        "copy->destination = fence_destination;",
        "",
    ),
    Mutation(
        "the graphs do not learn what has come from the first parts of a period",
        REPLAYER,
        "if(num_legs > 0) plan_again(*known, num_legs);",
        "",
    ),
    Mutation(
        "a period with an epoch begins behind a fence",
        TEMPLATES,
        "return has_epoch ? is_epoch(made.legs.back().stop) : made.legs.back().stop != nullptr;",
        "return made.legs.back().stop != nullptr;",
    ),
    Mutation(
        "the fence of another queue passes for the recorded stop",
        TEMPLATES,
        "a.priority == b.priority && ",
        "",
    ),
    Mutation(
        "any stop passes for the recorded one",
        TEMPLATES,
        "&& a.fence_box == b.fence_box",
        "",
    ),
    Mutation(
        "a fence to a device from a template writes into the memory of its first period",
        REPEATER,
        "copy->destination.is_of_user()",
        "copy->destination.memory == user_memory",
    ),
    Mutation(
        "any fence of the loop passes for the next one",
        STREAM,
        " && a.fence_box == b.fence_box",
        "",
    ),
    Mutation(
        "another index space passes for that of the loop",
        STREAM,
        "&& a.geometry == b.geometry ",
        "",
    ),
    Mutation(
        "another mapper passes for that of the loop",
        STREAM,
        " && a.mapper == b.mapper",
        "",
    ),
    Mutation(
        "a loop with an epoch begins anywhere",
        SEARCH,
        "return !m_has_epoch || is_epoch_task(*planned);",
        "return true;",
    ),
    Mutation(
        "the graphs do not learn what has come from whole periods of a loop",
        LOOPS,
        "by != plan_position()",
        "false && by != plan_position()",
    ),
    Mutation(
        "the graphs do not learn what has come from the first tasks of a period of a loop",
        LOOPS,
        "if(num_legs == 0) return;",
        "return;",
    ),
    Mutation(
        "what a loop has repeated is handed over behind what follows it",
        LOOPS,
        "if(known == nullptr) return;\n\tm_batches.release();",
        "if(known == nullptr) return;",
    ),
    Mutation(
        "a batch of a loop goes across a fence",
        SEARCH,
        "while(end < size && is_leg_for_graphs(end)) ++end;",
        "end = size;",
    ),
    Mutation(
        "the rest of a begun stretch of a loop passes for a whole one",
        BATCHES,
        "m_is_collecting = false;\n",
        "",
    ),
    Mutation(
        "a begun period of a loop goes with the whole ones",
        BATCHES,
        "m_num_whole = m_open.instructions.size();",
        "m_num_whole = m_open.instructions.size() + 1;",
    ),
    Mutation(
        "a template of a loop survives its buffers",
        LOOPS,
        "if(std::binary_search(buffers.begin(), buffers.end(), id)) drop(i);",
        "",
    ),
    Mutation(
        "any task passes for the next one of a loop",
        LOOPS,
        "|| !are_repeated(*leg.node, *submitted)",
        "",
    ),
    Mutation(
        "the last epoch does not move with a period that has one",
        BUILDER,
        "walk.id(settled);",
        "",
    ),
)
