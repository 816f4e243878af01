// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "instruction_facts.hpp"
#include "scheduler/core/base/ids.hpp"
#include "scheduler/core/vocabulary/instruction.hpp"
#include "transfers/receive_arbiter.hpp"

namespace celerity {

/// An instruction that has been issued and is not complete, for a person who looks for the reason of a hang.
struct active_instruction {
	double age_s = 0;
	std::string text;         ///< the instruction, and the data or event for which it waits
	submission_id submission; ///< 0 if it belongs to none
	buffer_id buffer;         ///< 0 if it concerns none
	std::optional<box> where;
	std::optional<rank_id> peer;
	std::optional<transfer_id> transfer;
	instruction_kind kind{};   ///< of its operation
	bool is_computing = false; ///< code of the user runs; for a GPU: nothing that it waits for is missing
	instruction_id instruction; ///< the first one of those that a graph carries out
	CELERITY_FIELDS(age_s, text, submission, buffer, where, peer, transfer, kind, is_computing, instruction)
};

/// Where a call of the user's code is.
enum class call_state { waiting, running, on_stream };

/// All fields but the age. `call` only matters for kernels and host tasks.
active_instruction describe(const instruction& instruction, bool is_issued, call_state call, const receive_arbiter& arbiter);

/// Of consecutive instructions that a graph carries out.
std::string describe_run(std::span<const instruction* const> run, bool is_issued);

} // namespace celerity
