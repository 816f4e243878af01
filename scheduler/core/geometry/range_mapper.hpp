// SPDX-License-Identifier: MIT
// Range mappers: rules that say which part of a buffer a chunk of an index space accesses.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/fields.hpp"
#include "base/names.hpp"
#include "digest.hpp"
#include "grid.hpp"

namespace celerity {

/// How a mapper fails to fit a kernel and a buffer.
struct mapper_misfit {
	enum class kind_type : std::uint8_t {
		none,
		other_dims,             ///< the buffer needs as many dimensions as the kernel
		other_dims_than_slice,  ///< or one more
		other_dims_than_box,    ///< the buffer needs `number` of them
		other_dims_than_names,  ///< the same, one per name
		other_dims_than_widths, ///< kernel and buffer need `number` of them, one per extent
		not_one_dimension,      ///< the kernel needs 1, the buffer 1 or more
		no_kernel_dimension,    ///< the kernel has no dimension `number`
		no_buffer_dimension,    ///< the buffer has no dimension `number`
		no_index,               ///< dimension `number` of the buffer has no such index
		no_element,             ///< some items of the index space have no element
	};
	kind_type kind = kind_type::none;
	std::int64_t number = 0;

	explicit operator bool() const { return kind != kind_type::none; }
	CELERITY_FIELDS(kind, number)
};
template <>
inline constexpr std::array<const char*, 11> names_of<mapper_misfit::kind_type>{"none", "other_dims", "other_dims_than_slice", "other_dims_than_box",
    "other_dims_than_names", "other_dims_than_widths", "not_one_dimension", "no_kernel_dimension", "no_buffer_dimension", "no_index", "no_element"};

/// Immutable value. Maps a chunk of a `kernel_dims`-dimensional index space to a region of a buffer; the result is clamped to the buffer.
class range_mapper {
  public:
	enum class kind { one_to_one, all, slice, neighborhood, even_split, permute, fixed, callable };
	/// (chunk, global index space) -> region of the buffer
	using function_type = std::function<region(const box& chunk, const box& global)>;
	using table_type = std::vector<std::pair<box, region>>;
	static constexpr coordinate absent = -1;
	static constexpr point no_options{{absent, absent, absent}};
	static constexpr point along_axes{{1, absent, absent}}; ///< the options of a neighborhood with shape="axes"

	range_mapper() = default; // one_to_one
	/// The rule that the function of this name in `celerity_py.access` describes. `numbers`: the first `count` are its arguments by position. `options`: its
	/// arguments by name, in their order; `absent` if one is not given. Throws std::invalid_argument for numbers that this kind does not take.
	static range_mapper built_in(kind k, int count = 0, const point& numbers = {}, const point& options = no_options);
	static range_mapper one_to_one() { return built_in(kind::one_to_one); }
	static range_mapper all() { return built_in(kind::all); }
	static range_mapper fixed(const region& where, int dims);
	/// Results of a Python callable, evaluated at submit for every chunk the graphs will ask for. Throws std::logic_error on any other chunk.
	static range_mapper from_table(table_type entries);
	/// Any thread may call `fn` at any time.
	static range_mapper from_function(function_type fn);

	kind get_kind() const { return m_kind; }

	/// Whether the mapper accepts this pair of dimensionalities.
	mapper_misfit check_dimensions(int kernel_dims, int buffer_dims) const;
	/// Whether each item of the index space `global` has an element of the buffer. `all` and `fixed` do not depend on items, and results of
	/// callables are clamped. Asked after check_dimensions().
	mapper_misfit check_bounds(const box& global, int kernel_dims, const point& buffer_extents, int buffer_dims) const;

	/// `global` is the whole index space of the task, `buffer_box` the whole buffer. The result is clamped to the buffer and normalised.
	region map(const box& chunk, const box& global, int kernel_dims, const box& buffer_box, int buffer_dims) const;

	/// True if disjoint chunks always map to disjoint regions (so that writing through it needs no overlap check).
	bool is_injective(int kernel_dims, int buffer_dims) const;
	/// True if the mapping of the whole is the union of the mappings of the parts, for any split: all built-ins, but not callables.
	bool is_additive() const;

	/// By how many elements each chunk reaches beyond those of its own items, if that is the same for all chunks that are cut in these dimensions only.
	std::optional<point> halo(const std::array<bool, 3>& is_cut) const;

	/// Whether the buffer is periodic, in some dimension: the mapper goes on at the opposite side.
	bool wraps() const { return m_kind == kind::neighborhood && m_options[wrap_option] != absent; }

	/// Adds kind and parameters of a built-in mapper; callables have none.
	void add_to(digest& out) const;

	/// As the user would write it: "neighborhood(1, 1, shape='axes')".
	std::string describe() const;

	/// Whether both give the same results. Of two functions that are no tables, false.
	friend bool operator==(const range_mapper& a, const range_mapper& b);

  private:
	static constexpr std::size_t wrap_option = 1; ///< of a neighborhood: bit d if dimension d is periodic; absent: cut off at the buffer

	kind m_kind = kind::one_to_one;
	int m_dims = 0; ///< of the region that is fixed, or how many numbers there are
	point m_params; ///< the numbers
	point m_options = no_options;
	std::shared_ptr<const region> m_fixed;
	std::shared_ptr<const function_type> m_callable;
	std::shared_ptr<const table_type> m_table; ///< of m_callable, sorted by chunk; null if it is no table

	explicit range_mapper(const kind k) : m_kind(k) {}

	bool fits(const box& global, int kernel_dims, const box& buffer_box, int buffer_dims) const;
};

template <>
inline constexpr std::array<const char*, 8> names_of<range_mapper::kind>{
    "one_to_one", "all", "slice", "neighborhood", "even_split", "permute", "fixed", "callable"};

} // namespace celerity
