// SPDX-License-Identifier: MIT
// One function per alternative of a variant, for std::visit.
#pragma once

namespace celerity {

template <typename... Fs>
struct overloaded : Fs... {
	using Fs::operator()...;
};
template <typename... Fs>
overloaded(Fs...) -> overloaded<Fs...>; // implied since C++20, but Clang before 17 wants it

} // namespace celerity
