// SPDX-License-Identifier: MIT
// How the threads of a fused kernel share its items. A thread has the items of a tile: some rows, and some neighbours in
// each. It loads what its items share once, into registers, and as vectors where addresses are aligned.
#pragma once

#include "fused_random.cuh"

#ifdef __CUDACC__
#define CELERITY_UNROLL _Pragma("unroll")
#define CELERITY_ROLLED _Pragma("unroll 1")
#else
#define CELERITY_UNROLL
#define CELERITY_ROLLED
#endif
// Of coordinates and strides. `int` does if all of them are smaller than 2^31 in magnitude, and is faster.
#ifndef CELERITY_COORDINATE
#define CELERITY_COORDINATE long long
#endif

// The tile of a thread along a dimension, of `step` rows, in a grid that covers all of them.
#define CELERITY_TILE(axis, dim, low, high, step) \
	if(const coordinate c##dim = static_cast<coordinate>(low) + static_cast<coordinate>(blockIdx.axis * blockDim.axis + threadIdx.axis) * (step), \
	    end##dim = static_cast<coordinate>(high); \
	    c##dim < end##dim)
// The same in a grid of any size. As a loop takes registers, it is for dimensions that no grid covers.
#define CELERITY_TILES(axis, dim, low, high, step) \
	for(coordinate c##dim = static_cast<coordinate>(low) + (blockIdx.axis * blockDim.axis + threadIdx.axis) * (step), \
	               end##dim = static_cast<coordinate>(high); \
	    c##dim < end##dim; c##dim += gridDim.axis * blockDim.axis * (step))
// The items of a dimension that is not divided among threads.
#define CELERITY_SERIAL(dim, low, high) \
	for(coordinate c##dim = static_cast<coordinate>(low), end##dim = static_cast<coordinate>(high); c##dim < end##dim; ++c##dim)
// The items of a tile: `r` counts its rows, and `k` those of a row.
#define CELERITY_ITEMS CELERITY_UNROLL for(int r = 0; r < Tile::rows; ++r) if(tile.has(r)) CELERITY_UNROLL for(int k = 0; k < Tile::columns; ++k)
// The columns of a thread one by one.
#define CELERITY_EACH_COLUMN(x) CELERITY_ROLLED for(coordinate column = x.begin; column < x.end; ++column)
// The rows of a tile one by one.
#define CELERITY_EACH_ROW(dim, rows) CELERITY_ROLLED for(coordinate row = c##dim; row < end##dim && row < c##dim + (rows); ++row)

namespace fused {

using coordinate = CELERITY_COORDINATE;

// Rows are `Columns` items long, `Apart` columns from each other. If they are wide, the addresses of vectors are aligned,
// and elements lie next to each other. Tiles at the end of a chunk that are not whole have `count` rows.
template <int Rows, int Columns, bool IsWide, bool IsWhole, int Apart = 1>
struct tile_of {
	static constexpr int rows = Rows, columns = Columns, apart = Apart;
	static constexpr bool is_wide = IsWide;
	int count;
	CELERITY_MEMBER bool has(int row) const { return IsWhole || row < count; }
};

// The product of a coordinate and a stride.
CELERITY_ITEM int64 distance(coordinate position, int64 stride) { return static_cast<int64>(position) * static_cast<coordinate>(stride); }

CELERITY_ITEM bool inside(coordinate position, int64 low, int64 high) {
	return position >= static_cast<coordinate>(low) && position < static_cast<coordinate>(high);
}
// The coordinate from `least` to `most` that is nearest.
CELERITY_ITEM coordinate limited(coordinate position, int64 least, int64 most) {
	const coordinate low = static_cast<coordinate>(least), high = static_cast<coordinate>(most);
	return position < low ? low : position > high ? high : position;
}
// Whether so many coordinates that begin with `position` are inside.
CELERITY_ITEM bool within(coordinate position, int count, int64 low, int64 high) {
	return position >= static_cast<coordinate>(low) && position + count <= static_cast<coordinate>(high);
}

template <int Bytes>
struct alignas(Bytes) raw {
	char bytes[Bytes];
};
#ifdef __CUDACC__
template <>
struct alignas(16) raw<16> {
	uint4 bytes;
};
template <>
struct alignas(8) raw<8> {
	uint2 bytes;
};
template <>
struct alignas(4) raw<4> {
	unsigned int bytes;
};
template <>
struct alignas(2) raw<2> {
	unsigned short bytes;
};
#endif

// Elements that are one access to memory.
template <typename T, int Columns>
struct vector {
	static constexpr int most = 16 / static_cast<int>(sizeof(T)), length = Columns < most ? Columns : most;
	using bits = raw<static_cast<int>(sizeof(T)) * length>;
	T items[length];
	static CELERITY_MEMBER vector load(const char* address) { return same_bits<vector>(*reinterpret_cast<const bits*>(address)); }
	CELERITY_MEMBER void store(char* address) const { *reinterpret_cast<bits*>(address) = same_bits<bits>(*this); }
};

// The elements of a memory that the items of a tile load: from `Top` above its first row to `Bottom` below its last one,
// and from `Left` of its first item to `Right` of its last one.
template <typename T, typename Tile, int Top, int Bottom, int Left, int Right>
struct window {
	static constexpr int height = Tile::rows + Bottom - Top, begin = Left, end = Tile::columns + Right;
	T items[height][end - begin];

	// `first` is the address in the first row of the tile at the column 0; `column` that of the first item.
	CELERITY_MEMBER void load(const Tile& tile, const char* first, coordinate column, int64 row_stride, int64 stride) {
		CELERITY_UNROLL
		for(int i = 0; i < height; ++i) {
			if(!tile.has(i + Top - Bottom)) { break; }
			const char* const row = first + (Top + i) * row_stride;
			if constexpr(Tile::is_wide) {
				load_wide(row + distance(column, sizeof(T)), items[i]);
			} else {
				CELERITY_UNROLL
				for(int at = begin; at < end; ++at) { items[i][at - begin] = *reinterpret_cast<const T*>(row + distance(column + at * Tile::apart, stride)); }
			}
		}
	}

	CELERITY_MEMBER T at(int row, int item) const { return items[row - Top][item - begin]; }

  private:
	static CELERITY_MEMBER void load_wide(const char* here, T (&into)[end - begin]) {
		using piece = vector<T, Tile::columns>;
		constexpr int length = piece::length, lowest = begin - (begin % length + length) % length;
		CELERITY_UNROLL
		for(int from = lowest; from < end; from += length) {
			const int used_from = from < begin ? begin : from, used_to = from + length < end ? from + length : end;
			if(used_to - used_from > 1 || length == 1) {
				const piece elements = piece::load(here + from * static_cast<int>(sizeof(T)));
				CELERITY_UNROLL
				for(int k = 0; k < length; ++k) {
					if(from + k >= used_from && from + k < used_to) { into[from + k - begin] = elements.items[k]; }
				}
			} else {
				into[used_from - begin] = *reinterpret_cast<const T*>(here + used_from * static_cast<int>(sizeof(T)));
			}
		}
	}
};

// What the items of a tile store.
template <typename T, typename Tile>
struct results {
	T items[Tile::rows][Tile::columns];

	CELERITY_MEMBER void store(const Tile& tile, char* first, coordinate column, int64 row_stride, int64 stride) const {
		CELERITY_UNROLL
		for(int r = 0; r < Tile::rows; ++r) {
			if(!tile.has(r)) { break; }
			char* const row = first + r * row_stride;
			if constexpr(Tile::is_wide) {
				using piece = vector<T, Tile::columns>;
				CELERITY_UNROLL
				for(int from = 0; from < Tile::columns; from += piece::length) {
					piece elements;
					CELERITY_UNROLL
					for(int k = 0; k < piece::length; ++k) { elements.items[k] = items[r][from + k]; }
					elements.store(row + distance(column + from, sizeof(T)));
				}
			} else {
				CELERITY_UNROLL
				for(int k = 0; k < Tile::columns; ++k) { *reinterpret_cast<T*>(row + distance(column + k * Tile::apart, stride)) = items[r][k]; }
			}
		}
	}
};

// The columns of a thread: those of a tile whose rows are vectors, or some that it visits one by one.
struct columns {
	coordinate begin, end;
	bool are_wide, are_any;
};
CELERITY_ITEM columns columns_of(int64 low, int64 high, coordinate block = static_cast<coordinate>(blockIdx.x)) {
	const coordinate begin = static_cast<coordinate>(low) + block * static_cast<coordinate>(blockDim.x) + static_cast<coordinate>(threadIdx.x);
	return columns{begin, begin + 1, false, begin < static_cast<coordinate>(high)};
}
// Vectors cover the columns from `first` to `last`. Threads have `Columns` columns each from `start` on, where memory is aligned to cache lines.
template <int Columns>
CELERITY_ITEM columns columns_of(int64 low, int64 high, int64 first, int64 last, int64 start, coordinate block = static_cast<coordinate>(blockIdx.x)) {
	const coordinate thread = block * static_cast<coordinate>(blockDim.x) + static_cast<coordinate>(threadIdx.x);
	const coordinate begin = static_cast<coordinate>(start) + thread * Columns, end = begin + Columns;
	if(begin >= static_cast<coordinate>(first) && end <= static_cast<coordinate>(last)) { return columns{begin, end, true, true}; }
	const coordinate from = begin < static_cast<coordinate>(low) ? static_cast<coordinate>(low) : begin;
	const coordinate to = end > static_cast<coordinate>(high) ? static_cast<coordinate>(high) : end;
	return columns{from, to, false, from < to};
}

// Calls `items(tile)` for the rows that are left, at most as many as a tile has.
template <int Rows, int Columns, bool IsWide, typename Items>
CELERITY_ITEM void visit_rows(coordinate rows_left, const Items& items) {
	if(Rows == 1 || rows_left >= Rows) {
		items(tile_of<Rows, Columns, IsWide, true>{Rows});
	} else if constexpr(Rows > 1) {
		items(tile_of<Rows, Columns, IsWide, false>{static_cast<int>(rows_left)});
	}
}

} // namespace fused
