// Text is made token by token: the chain that goes on where an earlier call ended, from states that
// its ops keep (attention: keys and values), instead of computing everything before it anew.
#pragma once

#include "model/graph.h"

namespace lazytrain {

// `chain` with every op that looks at other rows in the form that continues from a state
// (Op::continuation); other ops stay as they are.
SegmentChain Continued(const SegmentChain& chain);

// Whether a document of `total` tokens may be continued from the states that its first `cached`
// tokens left. Where not, all of it has to be computed anew.
bool Continues(const SegmentChain& chain, int64_t cached, int64_t total);

}  // namespace lazytrain
