// Package schemas holds the JSON Schemas of every job, event and question, and
// the AsyncAPI document that ties them to their subjects.
//
// The files are the contract: draft 2020-12, one file a message, with the
// definitions they share in common.json. They are embedded, refer to each other
// by relative references, and are never fetched from anywhere; their $id only
// names them.
//
// [Schema.Validate] judges a document and says in one line what is wrong with
// it and where. Beside the standard keywords the files use two of our own:
//
//   - "x-want" is the expected form of a value in plain words. Messages quote
//     it; validators that do not know it lose nothing.
//   - format "go-duration" is a duration that time.ParseDuration reads and that
//     is not negative. The pattern beside it says nearly the same to validators
//     that do not know the format.
package schemas
