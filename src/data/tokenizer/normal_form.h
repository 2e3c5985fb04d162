// Unicode normalization forms with the data of Unicode 9, as the reference has them: characters
// newer than that neither decompose nor compose nor change places.
#pragma once

#include <string>

namespace lazytrain {

enum class NormalForm { kNfc, kNfd, kNfkc, kNfkd };

// Brings the text, valid UTF-8, into the form (Unicode Standard Annex 15).
void Normalize(NormalForm form, std::string& text);

}  // namespace lazytrain
