// The tables behind normal_form.h, as text: entries end with a semicolon, numbers are hexadecimal.
#pragma once

namespace lazytrain {

// "code=code code ...": what the character fully decomposes into. "first-last=code": a range that
// maps to a range. Hangul syllables are left out: they are computed.
extern const char* const kCanonicalMappings;
// The same, where the compatibility decomposition is another.
extern const char* const kCompatibilityMappings;
// "code": decomposes into several characters, which do not compose to it again.
extern const char* const kCompositionExclusions;
// "first-last=class" or "code=class": Canonical_Combining_Class, where it is not 0.
extern const char* const kCombiningClasses;

}  // namespace lazytrain
