// Questions about nests, and moves that several families make.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "loopwright/schedule.h"

namespace loopwright::schedules {

bool is_pointwise(const NestInfo& nest);
/// The nests that update, in order.
std::vector<NestInfo> updates(const Schedule& s);
/// Intermediates that sum few terms for the epilogue of another sum, the first nests of a graph's thin products.
std::vector<std::string> find_thin_sums(const Schedule& s);
/// The updates but for the search of groups.
std::vector<NestInfo> sums(const Schedule& s);
/// The nest that finds the groups of rows, if any.
std::optional<NestInfo> find_groups(const Schedule& s);
/// The sums but for thin ones: what a family is asked to do.
std::vector<NestInfo> main_updates(const Schedule& s);
/// Writes thin sums out where they are read.
void inline_thin_sums(Schedule& s);
/// Whether some read of the reduction ends in a loop that it reduces over.
bool runs_along_memory(const NestInfo& sum);
/// The nests that write parameters, in order.
std::vector<NestInfo> outputs(const Schedule& s);
/// The nest that computes `buffer`: of a reduction the updating one.
NestInfo nest_of(const Schedule& s, const std::string& buffer);
/// The nest that stores the identity to `buffer`; an empty one when there is none.
NestInfo init_of(const Schedule& s, const std::string& buffer);
/// The nest that this loop is of; an empty one when there is none.
NestInfo nest_with(const Schedule& s, const LoopId& loop);
/// Whether the loop is one of the read's dimensions, and whether its memory runs along it.
bool has_loop(const ReadInfo& r, const LoopId& l);
bool ends_in(const ReadInfo& r, const LoopId& l);
/// How many nests read `buffer`.
int reader_count(const Schedule& s, const std::string& buffer);

/// Substitutes every pointwise intermediate into its readers, but for those that `keep` names.
void inline_intermediates(Schedule& s, const std::vector<std::string>& keep = {});

/// The number of leading loops of the last output that are rows: those over which every reduction is indexed.
/// -1 when the reductions disagree.
int count_row_loops(const Schedule& s);
/// Whether every reduction runs along memory, below rows that all outputs have.
bool reduces_rows(const Schedule& s);
/// Pointwise intermediates that several nests read: computing them once into the row may pay.
std::vector<std::string> find_shared_rows(const Schedule& s);
/// The buffers of intermediate nests, last first, without repetition.
std::vector<std::string> intermediates_backwards(const Schedule& s);

/// Fuses the innermost loops of a pointwise nest while every access walks through them as through one dimension.
/// Returns the nest's loops afterwards.
std::vector<LoopId> fuse_contiguous(Schedule& s, const NestInfo& nest);

/// Fuses all the loops, which are directly nested; an empty list gives an empty handle.
LoopId fuse_all(Schedule& s, std::vector<LoopId> loops);

/// The widest power of two up to `width` that is not beyond the loop's largest extent; at least 1.
std::int64_t clamp_width(const Schedule& s, const LoopId& loop, std::int64_t width);

/// Splits `loop` into vectors of at most `width` elements and vectorizes them. Returns the outer loop.
LoopId vectorize_inner(Schedule& s, const LoopId& loop, std::int64_t width);

/// Turns the serial reduction over `loop` into `vectors` vector accumulators of `lanes` elements each, combined as a
/// tree: first vectors, then lanes.
void reduce_in_vectors(Schedule& s, const LoopId& loop, std::int64_t lanes, std::int64_t vectors);

/// Whether the output is one that no cache of the target would keep; false where its size depends on symbols.
bool is_beyond_caches(const Schedule& s, const std::string& output);

/// Lanes of the widest vector in the computation's widest element type among a nest's write and reads.
std::int64_t natural_lanes(const Schedule& s, const NestInfo& nest);

}  // namespace loopwright::schedules
