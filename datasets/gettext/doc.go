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
//   - that has no letter on a side, or bytes or control characters that are not text,
//   - that has more than 2000 bytes on a side,
//   - that has a part that the program fills in: %s, %1, {name}, $HOME, tags of its own,
//   - that has fewer than three English words with a letter in them, without markup,
//   - that is the same on both sides,
//   - whose English sentence the language has already: the first translation is taken.
//
// Tags of HTML, Pango, DocBook and KDE, entities, and the marks of labels' keys (_File, E&xit)
// are removed. Contexts are dropped, and of plurals the singular with the first form is taken.
// A catalog in a charset that is not known is left out; a malformed one is an
// error that names it and the byte.
//
// # What is held out
//
// Sentences whose English side, without case, punctuation and spaces, has a hash in the lowest
// tenth of its range: the same in every language. Of each language at most 200 are used, those
// with the lowest hashes; the others of that tenth are in neither part. A language is the name
// of a folder: sr@latin, pt_BR and zh_TW are languages of their own, English and its variants
// are left out. Every language is translated into English.
package gettext
