// The closed list of steps.
#pragma once

#include <variant>

#include "src/schedule/steps/align_rows.h"
#include "src/schedule/steps/assume.h"
#include "src/schedule/steps/bind.h"
#include "src/schedule/steps/bulk.h"
#include "src/schedule/steps/cache.h"
#include "src/schedule/steps/compute_at.h"
#include "src/schedule/steps/fuse.h"
#include "src/schedule/steps/fuse_epilogue.h"
#include "src/schedule/steps/hold.h"
#include "src/schedule/steps/inline_buffer.h"
#include "src/schedule/steps/load_ahead.h"
#include "src/schedule/steps/merge.h"
#include "src/schedule/steps/persist.h"
#include "src/schedule/steps/reduce_across.h"
#include "src/schedule/steps/reorder.h"
#include "src/schedule/steps/ring.h"
#include "src/schedule/steps/round_factors.h"
#include "src/schedule/steps/scan_across.h"
#include "src/schedule/steps/separate.h"
#include "src/schedule/steps/split.h"
#include "src/schedule/steps/split_targets.h"
#include "src/schedule/steps/stage.h"
#include "src/schedule/steps/stream.h"
#include "src/schedule/steps/tensorize.h"
#include "src/schedule/steps/unroll.h"
#include "src/schedule/steps/value_first.h"
#include "src/schedule/steps/vectorize.h"

namespace loopwright::schedule {

using Step = std::variant<Split, Fuse, Merge, Reorder, Parallel, Bind, Unroll, Vectorize, InlineBuffer, ComputeAt,
                          FuseEpilogue, Hold, Stage, ReduceAcross, ScanAcross, ValueFirst, SplitTargets, AlignRows, Separate, RoundFactors, Tensorize, Ring, Bulk, LoadAhead, Persist, Stream, Cache,
                          AssumeMultiple, AssumeAlignment>;

}  // namespace loopwright::schedule
