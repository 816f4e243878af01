// SPDX-License-Identifier: MIT
#include "range_mapper.hpp"

#include <algorithm>
#include <atomic>
#include <limits>
#include <stdexcept>

namespace celerity {

namespace {

// The options of each kind, and the values of those that are words.
constexpr std::size_t at_option = 0; // of a slice; absent: the full extent
constexpr std::size_t shape_option = 0; // of a neighborhood; absent: a box
constexpr coordinate axes_shape = 1;

/// Sorted by chunk, so that a lookup is a search; the graphs ask for the chunks mostly in this order, which the last hit makes one comparison.
class chunk_table {
  public:
	explicit chunk_table(std::shared_ptr<const range_mapper::table_type> sorted) : m_table(std::move(sorted)), m_entries(*m_table) {}

	const region& find(const box& chunk) const {
		const std::size_t last = m_last_hit.load(std::memory_order_relaxed);
		for(std::size_t i = last; i < std::min(last + 2, m_entries.size()); ++i) {
			if(m_entries[i].first == chunk) return hit(i);
		}
		const auto at = std::lower_bound(m_entries.begin(), m_entries.end(), chunk, [](const auto& entry, const box& b) { return entry.first < b; });
		if(at == m_entries.end() || at->first != chunk) throw std::logic_error("no range mapper result is stored for the chunk " + to_string(chunk, 3));
		return hit(static_cast<std::size_t>(at - m_entries.begin()));
	}

  private:
	std::shared_ptr<const range_mapper::table_type> m_table;
	const range_mapper::table_type& m_entries;
	mutable std::atomic<std::size_t> m_last_hit = 0; // only a hint; mappers are shared between threads

	const region& hit(const std::size_t i) const {
		m_last_hit.store(i, std::memory_order_relaxed);
		return m_entries[i].second;
	}
};

coordinate saturating_add(const coordinate a, const coordinate b) {
	coordinate sum = 0;
	if(!__builtin_add_overflow(a, b, &sum)) return sum;
	return b > 0 ? std::numeric_limits<coordinate>::max() : std::numeric_limits<coordinate>::min();
}

region clamp(region r, const box& buffer_box) {
	if(r.is_single_box()) return intersection(r.boxes()[0], buffer_box);
	if(std::all_of(r.begin(), r.end(), [&](const box& b) { return buffer_box.covers(b); })) return r;
	return region_intersection(r, buffer_box);
}

/// `inline`, because GCC otherwise calls it for each dimension of each chunk.
inline box grow(const box& b, const std::size_t dim, const coordinate width) {
	return with_interval(b, dim, saturating_add(b.min(dim), -width), saturating_add(b.max(dim), width));
}

/// The chunk grown along all axes at once: a larger box.
region grow_all_around(const box& chunk, const point& widths, const box& buffer_box) {
	if(chunk.empty()) return {};
	point min;
	point max;
	for(std::size_t d = 0; d < 3; ++d) {
		min[d] = std::max(saturating_add(chunk.min(d), -widths[d]), buffer_box.min(d));
		max[d] = std::min(saturating_add(chunk.max(d), widths[d]), buffer_box.max(d));
	}
	return box(min, max);
}

/// The chunk grown along each axis by itself: a plus.
region grow_along_axes(const box& chunk, const point& widths, const box& buffer_box) {
	if(chunk.empty()) return {};
	std::array<box, 3> grown;
	for(std::size_t d = 0; d < 3; ++d) grown[d] = intersection(grow(chunk, d, widths[d]), buffer_box);
	if(buffer_box.covers(chunk) && grown[2] == chunk) { // at most 2-D and not cut off: the normal form is known
		if(grown[1] == chunk) return grown[0];
		if(grown[0] == chunk) return grown[1];
		const box above = with_interval(grown[0], 0, grown[0].min(0), chunk.min(0));
		const box below = with_interval(grown[0], 0, chunk.max(0), grown[0].max(0));
		box_vector boxes;
		if(!above.empty()) boxes.push_back(above);
		boxes.push_back(grown[1]);
		if(!below.empty()) boxes.push_back(below);
		return region::from_normalized(std::move(boxes));
	}
	return region(box_vector{grown[0], grown[1], grown[2]});
}

struct interval {
	coordinate begin = 0;
	coordinate end = 0;
};

/// The elements of a buffer that repeats, as intervals of the buffer in one dimension. The second one may be empty.
std::array<interval, 2> wrap(const coordinate low, const coordinate high, const coordinate extent) {
	coordinate length = 0;
	if(__builtin_sub_overflow(high, low, &length) || length >= extent) return {interval{0, extent}, interval{}};
	const coordinate begin = ((low % extent) + extent) % extent;
	const coordinate beyond = std::max<coordinate>(length - (extent - begin), 0);
	return {interval{begin, begin + (length - beyond)}, interval{0, beyond}};
}

/// A set of dimensions, with bit d for dimension d.
bool has_dimension(const coordinate set, const std::size_t d) { return ((set >> d) & 1) != 0; }

/// Appends the elements of `b` in a buffer that repeats in the dimensions `periodic`, and ends in the others.
void append_wrapped(box_vector& out, const box& b, const box& buffer_box, const coordinate periodic) {
	std::array<std::array<interval, 2>, 3> parts;
	for(std::size_t d = 0; d < 3; ++d) {
		const coordinate end = buffer_box.max(d);
		parts[d] = has_dimension(periodic, d) ? wrap(b.min(d), b.max(d), end)
		                                      : std::array<interval, 2>{interval{std::max<coordinate>(b.min(d), 0), std::min(b.max(d), end)}, interval{}};
	}
	for(const interval& i : parts[0]) {
		for(const interval& j : parts[1]) {
			for(const interval& k : parts[2]) out.push_back(box(point{{i.begin, j.begin, k.begin}}, point{{i.end, j.end, k.end}}));
		}
	}
}

/// The neighborhood of a chunk in a buffer that repeats in the dimensions `periodic`.
region grow_and_wrap(const box& chunk, const point& widths, const bool along_axes, const coordinate periodic, const box& buffer_box) {
	if(chunk.empty()) return {};
	box_vector boxes;
	box all_around = chunk;
	for(std::size_t d = 0; d < 3; ++d) {
		if(along_axes) append_wrapped(boxes, grow(chunk, d, widths[d]), buffer_box, periodic);
		all_around = grow(all_around, d, widths[d]);
	}
	if(!along_axes) append_wrapped(boxes, all_around, buffer_box, periodic);
	return region(std::move(boxes));
}

/// Deals the extent of dimension 0 to `count` items in blocks of `granularity`; see range_mapper::even_split.
class even_blocks {
  public:
	even_blocks(const coordinate extent, const coordinate count, const coordinate granularity) : m_extent(extent), m_count(count) {
		m_granularity = std::min(granularity, extent + 1); // so that the product cannot overflow
		m_step = extent / (count * m_granularity) * m_granularity;
		m_num_larger = (extent - count * m_step) / m_granularity;
	}
	/// Item `count - 1` also takes the remainder.
	coordinate begin(const coordinate item) const { return item >= m_count ? m_extent : item * m_step + std::min(item, m_num_larger) * m_granularity; }

  private:
	coordinate m_extent;
	coordinate m_count;
	coordinate m_granularity = 1;
	coordinate m_step = 0;
	coordinate m_num_larger = 0;
};

/// Not clamped to the buffer.
box slice_of(const box& chunk, const std::size_t dim, const coordinate at, const int kernel_dims, const box& buffer_box, const int buffer_dims) {
	if(chunk.empty()) return {};
	const box within = at == range_mapper::absent ? buffer_box : with_interval(buffer_box, dim, at, saturating_add(at, 1));
	if(buffer_dims == kernel_dims) return with_interval(chunk, dim, within.min(dim), within.max(dim));
	point min = within.min();
	point max = within.max();
	std::size_t kernel_dim = 0;
	for(std::size_t d = 0; d < static_cast<std::size_t>(buffer_dims); ++d) {
		if(d == dim) continue;
		min[d] = chunk.min(kernel_dim);
		max[d] = chunk.max(kernel_dim++);
	}
	return box(min, max);
}

/// Not clamped to the buffer.
box permuted(const box& chunk, const point& order, const int dims) {
	if(chunk.empty()) return {};
	point min;
	point max{{1, 1, 1}};
	for(std::size_t d = 0; d < static_cast<std::size_t>(dims); ++d) {
		min[d] = chunk.min(static_cast<std::size_t>(order[d]));
		max[d] = chunk.max(static_cast<std::size_t>(order[d]));
	}
	return box(min, max);
}

std::string join(const point& values, const int count) {
	std::string text;
	for(int i = 0; i < count; ++i) {
		if(i > 0) text += ", ";
		text += std::to_string(values[static_cast<std::size_t>(i)]);
	}
	return text;
}

std::string as_python_tuple(const point& values, const int count) {
	std::string text = "(";
	text += join(values, count);
	return text += count == 1 ? ",)" : ")";
}

/// The argument of a neighborhood that is periodic in some dimensions.
std::string describe_wrap(const coordinate periodic, const int dims) {
	if(periodic == range_mapper::absent) return "";
	if(periodic == (coordinate{1} << dims) - 1) return ", wrap=True";
	std::string flags;
	for(int d = 0; d < dims; ++d) flags += std::string(d > 0 ? ", " : "") + (has_dimension(periodic, static_cast<std::size_t>(d)) ? "True" : "False");
	return ", wrap=(" + flags + ")";
}

std::string as_python(const region& r, const int dims) {
	const auto describe_box = [&](const box& b) { return "Box(" + as_python_tuple(b.min(), dims) + ", " + as_python_tuple(b.max(), dims) + ")"; };
	if(r.is_single_box()) return describe_box(r.boxes()[0]);
	std::string text = "Region([";
	for(std::size_t i = 0; i < r.boxes().size(); ++i) {
		if(i > 0) text += ", ";
		text += describe_box(r.boxes()[i]);
	}
	return text + "])";
}

} // namespace

range_mapper range_mapper::built_in(const kind k, const int count, const point& numbers, const point& options) {
	range_mapper mapper(k);
	mapper.m_dims = count;
	mapper.m_params = numbers;
	mapper.m_options = options;
	const auto expect = [&](const bool is_right, const char* const needs) {
		if(!is_right) throw std::invalid_argument(mapper.describe() + " needs " + needs + ".");
	};
	const auto size = static_cast<std::size_t>(count);
	switch(k) {
	case kind::one_to_one:
	case kind::all: expect(count == 0, "no numbers"); break;
	case kind::slice:
		expect(count == 1 && numbers[0] >= 0 && numbers[0] <= 2, "a dimension between 0 and 2");
		expect(options[at_option] >= absent, "an index of at least 0");
		break;
	case kind::neighborhood:
		for(std::size_t i = 0; i < size; ++i) expect(numbers[i] >= 0, "extents of at least 0");
		expect(options[wrap_option] >= absent && options[wrap_option] < (coordinate{1} << count), "periodic dimensions of its own");
		break;
	case kind::even_split: expect(count == 1 && numbers[0] >= 1, "a granularity of at least 1"); break;
	case kind::permute:
		for(std::size_t i = 0; i < size; ++i) {
			bool is_new = numbers[i] >= 0 && numbers[i] <= 2;
			for(std::size_t earlier = 0; earlier < i; ++earlier) is_new &= numbers[earlier] != numbers[i];
			expect(is_new, "different dimensions between 0 and 2");
		}
		break;
	case kind::fixed:
	case kind::callable: throw std::invalid_argument("numbers make no such mapper");
	}
	return mapper;
}

range_mapper range_mapper::fixed(const region& where, const int dims) {
	range_mapper mapper(kind::fixed);
	mapper.m_dims = dims;
	mapper.m_fixed = std::make_shared<const region>(where);
	return mapper;
}

range_mapper range_mapper::from_table(table_type entries) {
	std::sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
	const auto sorted = std::make_shared<const table_type>(std::move(entries));
	auto mapper = from_function([table = std::make_shared<const chunk_table>(sorted)](const box& chunk, const box&) { return table->find(chunk); });
	mapper.m_table = sorted;
	return mapper;
}

range_mapper range_mapper::from_function(function_type fn) {
	range_mapper mapper(kind::callable);
	mapper.m_callable = std::make_shared<const function_type>(std::move(fn));
	return mapper;
}

mapper_misfit range_mapper::check_dimensions(const int kernel_dims, const int buffer_dims) const {
	using misfit = mapper_misfit::kind_type;
	const auto unless = [](const bool fits, const misfit kind, const std::int64_t number = 0) { return fits ? mapper_misfit{} : mapper_misfit{kind, number}; };
	switch(m_kind) {
	case kind::all:
	case kind::callable: return {};
	case kind::one_to_one: return unless(kernel_dims == buffer_dims, misfit::other_dims);
	case kind::fixed: return unless(m_dims == buffer_dims, misfit::other_dims_than_box, m_dims);
	case kind::slice:
		if(m_params[0] >= buffer_dims) return {misfit::no_buffer_dimension, m_params[0]};
		return unless(buffer_dims == kernel_dims || buffer_dims == kernel_dims + 1, misfit::other_dims_than_slice);
	case kind::neighborhood: return unless(m_dims == kernel_dims && m_dims == buffer_dims, misfit::other_dims_than_widths, m_dims);
	case kind::even_split: return unless(kernel_dims == 1 && buffer_dims >= 1, misfit::not_one_dimension);
	case kind::permute: break;
	}
	if(m_dims != buffer_dims) return {misfit::other_dims_than_names, m_dims};
	for(std::size_t i = 0; i < static_cast<std::size_t>(m_dims); ++i) {
		if(m_params[i] >= kernel_dims) return {misfit::no_kernel_dimension, m_params[i]};
	}
	return {};
}

bool range_mapper::fits(const box& global, const int kernel_dims, const box& buffer_box, const int buffer_dims) const {
	switch(m_kind) {
	case kind::one_to_one: return buffer_box.covers(global);
	case kind::slice:
		return buffer_box.covers(slice_of(global, static_cast<std::size_t>(m_params[0]), m_options[at_option], kernel_dims, buffer_box, buffer_dims));
	case kind::permute: return buffer_box.covers(permuted(global, m_params, m_dims));
	case kind::neighborhood: {
		if(buffer_box.covers(global)) return true;
		box reached = buffer_box;
		for(std::size_t d = 0; d < static_cast<std::size_t>(m_dims); ++d) reached = grow(reached, d, m_params[d]);
		return reached.covers(global);
	}
	case kind::all:
	case kind::fixed:
	case kind::even_split:
	case kind::callable: break;
	}
	return true;
}

mapper_misfit range_mapper::check_bounds(const box& global, const int kernel_dims, const point& buffer_extents, const int buffer_dims) const {
	using misfit = mapper_misfit::kind_type;
	if(fits(global, kernel_dims, box::full(buffer_extents), buffer_dims)) return {};
	const bool names_index = m_kind == kind::slice && m_options[at_option] >= buffer_extents[static_cast<std::size_t>(m_params[0])];
	return names_index ? mapper_misfit{misfit::no_index, m_params[0]} : mapper_misfit{misfit::no_element};
}

region range_mapper::map(const box& chunk, const box& global, const int kernel_dims, const box& buffer_box, const int buffer_dims) const {
	switch(m_kind) {
	case kind::one_to_one: return intersection(chunk, buffer_box);
	case kind::all: return buffer_box;
	case kind::fixed: return clamp(*m_fixed, buffer_box);
	case kind::slice:
		return intersection(slice_of(chunk, static_cast<std::size_t>(m_params[0]), m_options[at_option], kernel_dims, buffer_box, buffer_dims), buffer_box);
	case kind::neighborhood:
		if(wraps()) return grow_and_wrap(chunk, m_params, m_options[shape_option] == axes_shape, m_options[wrap_option], buffer_box);
		if(m_options[shape_option] == axes_shape) return grow_along_axes(chunk, m_params, buffer_box);
		return grow_all_around(chunk, m_params, buffer_box);
	case kind::even_split: {
		if(chunk.empty()) return {};
		const even_blocks blocks(buffer_box.extent(0), global.extent(0), m_params[0]);
		return with_interval(buffer_box, 0, blocks.begin(chunk.min(0) - global.min(0)), blocks.begin(chunk.max(0) - global.min(0)));
	}
	case kind::permute: return intersection(permuted(chunk, m_params, m_dims), buffer_box);
	case kind::callable: break;
	}
	return clamp((*m_callable)(chunk, global), buffer_box);
}

bool range_mapper::is_injective(const int kernel_dims, const int buffer_dims) const {
	switch(m_kind) {
	case kind::one_to_one:
	case kind::even_split: return true;
	case kind::slice: return buffer_dims == kernel_dims + 1;
	case kind::neighborhood: return m_params == point{};
	case kind::permute: return m_dims == kernel_dims;
	case kind::all:
	case kind::fixed:
	case kind::callable: break;
	}
	return false;
}

std::optional<point> range_mapper::halo(const std::array<bool, 3>& is_cut) const {
	if(m_kind == kind::one_to_one) return point{};
	if(m_kind == kind::slice && m_options[at_option] == absent && !is_cut[static_cast<std::size_t>(m_params[0])]) return point{};
	if(m_kind != kind::neighborhood) return std::nullopt;
	for(std::size_t d = 0; wraps() && d < 3; ++d) {
		if(is_cut[d] && (m_options[wrap_option] >> d & 1) != 0) return std::nullopt;
	}
	return m_params;
}

bool range_mapper::is_additive() const { return m_kind != kind::callable; }

void range_mapper::add_to(digest& out) const {
	out.add(static_cast<std::uint64_t>(m_kind) | static_cast<std::uint64_t>(m_dims) << 16U);
	out.add(m_params);
	out.add(m_options);
	if(m_fixed != nullptr) out.add(*m_fixed);
}

bool operator==(const range_mapper& a, const range_mapper& b) {
	const auto are_equal = [](const auto& one, const auto& other) { return one == other || (one != nullptr && other != nullptr && *one == *other); };
	return a.m_kind == b.m_kind && a.m_dims == b.m_dims && a.m_params == b.m_params && a.m_options == b.m_options && are_equal(a.m_fixed, b.m_fixed)
	       && (a.m_callable == b.m_callable || (a.m_table != nullptr && are_equal(a.m_table, b.m_table)));
}

std::string range_mapper::describe() const {
	switch(m_kind) {
	case kind::one_to_one: return "one_to_one()";
	case kind::all: return "all()";
	case kind::fixed: return "fixed(" + as_python(*m_fixed, m_dims) + ")";
	case kind::slice: return "slice(" + join(m_params, 1) + (m_options[at_option] == absent ? ")" : ", at=" + std::to_string(m_options[at_option]) + ")");
	case kind::neighborhood:
		return "neighborhood(" + join(m_params, m_dims) + (m_options[shape_option] == axes_shape ? ", shape='axes'" : "")
		       + describe_wrap(m_options[wrap_option], m_dims) + ")";
	case kind::even_split: return "even_split(" + join(m_params, 1) + ")";
	case kind::permute: return "permute(" + join(m_params, m_dims) + ")";
	case kind::callable: break;
	}
	return "callable";
}

} // namespace celerity
