// Package secret resolves references to secrets from the worker's own sources and
// keeps their values out of everything that is written.
//
// # References
//
// A job names its secrets ("github-token"); a Resolver finds their values in the
// environment, in single files or in a directory, as they are at that moment: a
// file that changed is read again. Who may use which reference is decided by a
// func from outside. A Value does not print itself by any means; only Reveal gives
// it away. No error holds a value, nor a reference that looks like one.
//
// # Masking
//
// A Set holds the values that must not be shown. It masks texts (Bytes, String,
// JSON), log records (Handler) and streams (Writer) by value. What is found:
//
//   - the value, and each line of a value with several lines;
//   - its base64 in both alphabets, padded or not, also where it is a part of a
//     longer base64 text, at each of the three places it can have in it;
//   - its hex, in upper or lower case;
//   - each of those percent-escaped, in whole or in part, with spaces as %20 or +;
//   - each of those in a JSON string, with any of its characters escaped;
//   - each of those broken into lines by base64, xxd or fold.
//
// Promises, each kept by a test:
//
//   - A mask has as many bytes as what it hides, and line ends stay where they
//     were: offsets and lines are those of the original.
//   - A Writer's output does not depend on how its input was cut into writes.
//   - A Writer holds back only what may still turn out to be the beginning of a
//     value, at most the longest form less one byte, and that until Flush.
//   - A Set may grow and shrink while Writers use it. A value added is masked from
//     the bytes on that were held at that time; one removed is still masked where
//     it had begun.
//
// What it cannot do: a value that the command itself changes in another way
// (reversed, compressed, a letter a line) is not known to be one, nor is an escaped
// value right behind a lone percent sign or backslash, with which its beginning reads
// as something else. Masking keeps
// accidents out of the record; the wall against intent is elsewhere.
//
// The search is an Aho-Corasick automaton of our own: the libraries for Go search a
// whole haystack and do not give their state out of hand, which is what a stream
// cut anywhere, and one look at a text through several escapes, need.
package secret
