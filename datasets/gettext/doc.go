// Package gettext reads parallel sentences from catalogs of translations, the
// *.mo files in which programs keep their messages in other languages than
// English. A Linux system has thousands, in up to two hundred languages.
//
// [Read] reads the catalogs below a directory and cleans the messages. [Corpus.Split] divides a language's pairs so that
// no English sentence is held out in one language and trained on in another.
//
// Nothing in a file is trusted: sizes and places that it declares are compared
// with its own size before anything is read there, and the memory that all
// files together may take is bounded (see the constants).
//
// # What is left out
//
// A message is left out
//
//   - if a side has no letter, or bytes or control characters that are not text,
//   - if a side has more than 2000 bytes,
//   - if it has a placeholder that the program fills in: %s, %1, {name}, $HOME, its own tags,
//   - if it has fewer than three English words with a letter in them, without markup,
//   - if both sides are the same,
//   - if the language already has its English sentence: the first translation is kept.
//
// Tags of HTML, Pango, DocBook and KDE, entities, and the marks of labels' keys (_File, E&xit)
// are removed. Contexts are dropped, and for plurals the singular and the first form are used.
// A catalog in an unknown charset is left out; a malformed one is an error that names it
// and the byte.
//
// # What is held out
//
// A sentence is held out if the hash of its English side, without case, punctuation and spaces,
// is in the lowest tenth of the range: the same sentences in every language. At most 200 per
// language are used, those with the lowest hashes; the rest of that tenth is in neither part. A
// language is the name of a folder: sr@latin, pt_BR and zh_TW are separate languages; English and
// its variants are left out. Every language is translated into English.
package gettext
