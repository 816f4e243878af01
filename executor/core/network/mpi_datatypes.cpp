// SPDX-License-Identifier: MIT
#include "mpi_datatypes.hpp"

#include <algorithm>
#include <array>
#include <bit>

namespace celerity {

namespace {

constexpr std::size_t most_datatypes = 1024;
constexpr std::size_t largest_word_bytes = 8;

// MPI packs words faster than bytes. The word depends on the size of an element, which is the same on both sides, and not on the contiguous runs, which may
// differ.
std::size_t word_of(const std::size_t element_size_bytes) { return static_cast<std::size_t>(std::countr_zero(element_size_bytes | largest_word_bytes)); }

} // namespace

template <typename Handle>
mpi_buffer<Handle> mpi_datatypes<Handle>::place(const payload& message) {
	const auto [first_byte, layout] = layout_of(message);
	const auto word = word_of(message.element_size_bytes);
	void* const address = static_cast<std::byte*>(message.address) + first_byte;
	if(const auto count = layout.run_bytes >> word; layout.num_loops == 0 && count <= m_largest_count) {
		return {address, static_cast<int>(count), m_api.words[word]};
	}
	const std::pair key{word, layout};
	auto found = m_made.find(key);
	if(found == m_made.end()) {
		if(m_made.size() >= most_datatypes) free(m_made.extract(m_made.begin()).mapped());
		found = m_made.emplace(key, make(word, layout)).first;
	}
	return {address, 1, found->second};
}

template <typename Handle>
void mpi_datatypes<Handle>::clear() {
	for(const auto& [key, made] : m_made) free(made);
	m_made.clear();
}

template <typename Handle>
Handle mpi_datatypes<Handle>::make(const std::size_t word, const strided_layout& layout) const {
	Handle made = make_run(word, layout.run_bytes >> word);
	for(std::size_t i = 0; i < layout.num_loops; ++i) {
		const Handle inner = made;
		made = repeat(inner, layout.loops[i].count, layout.loops[i].stride_bytes);
		free(inner); // it lives on inside of the one made of it
	}
	m_api.check(m_api.type_commit(&made), "MPI_Type_commit");
	return made;
}

template <typename Handle>
Handle mpi_datatypes<Handle>::make_run(const std::size_t word, const std::size_t count) const {
	const auto whole = count / m_largest_count;
	const auto rest = count % m_largest_count;
	if(whole == 0) return contiguous(rest, m_api.words[word]);
	const Handle block = contiguous(m_largest_count, m_api.words[word]);
	const Handle joined = join(block, whole, m_api.words[word], rest, (whole * m_largest_count) << word);
	free(block);
	return joined;
}

template <typename Handle>
Handle mpi_datatypes<Handle>::repeat(const Handle repeated, const std::size_t count, const std::size_t stride_bytes) const {
	if(count <= m_largest_count) return strided(count, stride_bytes, repeated);
	const auto whole = count / m_largest_count;
	const auto rest = count % m_largest_count;
	const Handle block = strided(m_largest_count, stride_bytes, repeated);
	const Handle head = strided(whole, stride_bytes * m_largest_count, block);
	const Handle tail = strided(rest, stride_bytes, repeated);
	const Handle joined = join(head, 1, tail, 1, whole * m_largest_count * stride_bytes);
	for(const Handle part : {block, head, tail}) free(part);
	return joined;
}

template <typename Handle>
Handle mpi_datatypes<Handle>::contiguous(const std::size_t count, const Handle repeated) const {
	Handle made{};
	m_api.check(m_api.type_contiguous(static_cast<int>(count), repeated, &made), "MPI_Type_contiguous");
	return made;
}

template <typename Handle>
Handle mpi_datatypes<Handle>::strided(const std::size_t count, const std::size_t stride_bytes, const Handle repeated) const {
	Handle made{};
	const auto stride = static_cast<typename mpi_api<Handle>::address_difference>(stride_bytes);
	m_api.check(m_api.type_create_hvector(static_cast<int>(count), 1, stride, repeated, &made), "MPI_Type_create_hvector");
	return made;
}

template <typename Handle>
Handle mpi_datatypes<Handle>::join(const Handle first, const std::size_t first_count, const Handle second, const std::size_t second_count,
    const std::size_t offset_bytes) const {
	const std::array<int, 2> counts{static_cast<int>(first_count), static_cast<int>(second_count)};
	const std::array<typename mpi_api<Handle>::address_difference, 2> offsets{0, static_cast<std::intptr_t>(offset_bytes)};
	const std::array<Handle, 2> parts{first, second};
	Handle made{};
	m_api.check(m_api.type_create_struct(2, counts.data(), offsets.data(), parts.data(), &made), "MPI_Type_create_struct");
	return made;
}

template <typename Handle>
void mpi_datatypes<Handle>::free(Handle made) const {
	m_api.check(m_api.type_free(&made), "MPI_Type_free");
}

template class mpi_datatypes<int>;
template class mpi_datatypes<void*>;

} // namespace celerity
