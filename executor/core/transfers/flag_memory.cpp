// SPDX-License-Identifier: MIT
#include "flag_memory.hpp"

#include <algorithm>
#include <climits>
#include <cstring>
#include <ctime>
#include <random>
#include <stdexcept>
#include <string>

#include "threads/relax_cpu.hpp"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace celerity {

namespace {

/// The longest time that a lost wake-up could last. No behaviour depends on it.
constexpr long longest_sleep_ns = 100'000'000;
/// To fall asleep and wake up costs more than so many looks.
constexpr int looks_before_sleep = 200;
constexpr std::size_t flags_per_line = 64 / sizeof(std::uint32_t);

static_assert(sizeof(std::atomic<std::uint32_t>) == sizeof(std::uint32_t) && std::atomic<std::uint32_t>::is_always_lock_free,
    "a futex is a plain word, and so is a flag that another process or device writes");

} // namespace

void flag_bell::ring() {
	m_count.fetch_add(1, std::memory_order_seq_cst);
	if(m_num_sleeping.load(std::memory_order_seq_cst) == 0) return;
	::syscall(SYS_futex, &m_count, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

void flag_bell::wait(const std::uint32_t seen) {
	m_num_sleeping.fetch_add(1, std::memory_order_seq_cst);
	const timespec timeout{0, longest_sleep_ns};
	::syscall(SYS_futex, &m_count, FUTEX_WAIT, seen, &timeout, nullptr, 0); // returns at once if the bell has rung
	m_num_sleeping.fetch_sub(1, std::memory_order_seq_cst);
}

flag_memory flag_memory::create(const std::size_t num_ranks) {
	flag_memory made;
	made.m_memory = shared_memory::create(total_bytes(num_ranks));
	auto& header = made.get_header();
	std::random_device random;
	header.nonce = (std::uint64_t{random()} << 32) | random();
	header.num_ranks = num_ranks;
	return made;
}

flag_memory::offer flag_memory::make_offer() const {
	offer result{get_header().nonce, get_header().num_ranks, {}};
	const auto& path = m_memory.path();
	if(path.size() >= result.path.size()) throw std::length_error("the path of shared memory is too long");
	std::copy(path.begin(), path.end(), result.path.begin());
	return result;
}

flag_memory flag_memory::open(const offer& offer) {
	flag_memory made;
	const std::string path(offer.path.data(), ::strnlen(offer.path.data(), offer.path.size()));
	made.m_memory = shared_memory::open(path, total_bytes(offer.num_ranks));
	// Another container may give the same number to another process.
	if(made.get_header().nonce != offer.nonce) throw std::runtime_error(path + " belongs to another program");
	return made;
}

// Neighbouring slots lie on different cache lines, because both ranks write the few slots that are in use.
std::uint32_t* flag_memory::flag(const std::size_t block, const std::uint32_t slot) const {
	constexpr std::size_t num_lines = num_slots / flags_per_line;
	const std::size_t word = slot % num_lines * flags_per_line + slot / num_lines;
	return reinterpret_cast<std::uint32_t*>(static_cast<std::byte*>(m_memory.address()) + header_bytes + block * bytes_per_rank) + word;
}

std::uint32_t* flag_memory::answer_flag(const std::size_t position, const std::uint32_t slot) const { return flag(get_header().num_ranks + position, slot); }

pilot_ring& flag_memory::pilots(const std::size_t position) const {
	auto* const rings = reinterpret_cast<pilot_ring*>(static_cast<std::byte*>(m_memory.address()) + flag_bytes(get_header().num_ranks));
	return rings[position];
}

void flag_board::add(void* const address, const std::size_t size_bytes) {
	m_entries.push_back({static_cast<std::byte*>(address), size_bytes});
	std::sort(m_entries.begin(), m_entries.end(), [](const entry& a, const entry& b) { return a.address < b.address; });
}

flag_bell& flag_board::bell_of(const void* const address) const {
	const auto* const byte = static_cast<const std::byte*>(address);
	const auto after = std::upper_bound(m_entries.begin(), m_entries.end(), byte, [](const std::byte* const b, const entry& e) { return b < e.address; });
	if(after == m_entries.begin() || byte >= std::prev(after)->address + std::prev(after)->size_bytes) throw std::logic_error("a flag outside of all segments");
	auto& header = *reinterpret_cast<flag_memory::header*>(std::prev(after)->address);
	const auto offset = static_cast<std::size_t>(byte - std::prev(after)->address);
	const bool is_ready = offset < flag_memory::header_bytes + header.num_ranks * flag_memory::bytes_per_rank;
	return is_ready ? header.ready_bell : header.answer_bell;
}

void flag_board::raise(const shared_flag& flag) const {
	std::atomic_ref(*flag.address).store(flag.value, std::memory_order_release);
	bell_of(flag.address).ring();
}

bool flag_board::wait(const shared_flag& flag, const std::function<bool()>& is_cancelled) const {
	auto& bell = bell_of(flag.address);
	for(int look = 0;; ++look) {
		const auto seen = bell.prepare();
		if(is_reached(flag)) return true;
		if(is_cancelled()) return false;
		if(look < looks_before_sleep) {
			relax_cpu();
		} else {
			bell.wait(seen);
		}
	}
}

std::uint32_t flag_board::prepare_answer(void* const address) { return static_cast<flag_memory::header*>(address)->answer_bell.prepare(); }
void flag_board::wait_for_answer(void* const address, const std::uint32_t seen) { static_cast<flag_memory::header*>(address)->answer_bell.wait(seen); }

void flag_board::wake_all() const {
	for(const auto& e : m_entries) {
		auto& header = *reinterpret_cast<flag_memory::header*>(e.address);
		header.ready_bell.ring();
		header.answer_bell.ring();
	}
}

} // namespace celerity
