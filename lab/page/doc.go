// Package page writes the report: HTML pages of all results.
//
// The first paper has the page that a reader opens first: on its first screen what the paper's main
// sentences come to, and the picture that says most. Every other paper with records has a page, each
// paper has another with all its claims, to filter, and one with its experiments that are apart
// (section 6 of the first), which begins with the text on the first of these; and there is the page on
// which schedules are moved. The contents stay beside the text of a wide screen, and are a closed menu
// on a phone. The first table of an experiment is open, others are closed; of captions and notes two
// lines are seen.
//
// Except for the schedule page they have no script, and none has a file from elsewhere. They have
// the colours of the reader's system; in print they are light, and all that is closed is open.
// `make check-report` opens them in headless Chromium at 400, 1280 and 1920 pixels, light and dark,
// with and without Liberation Sans: nothing is wider than the window, no message on the console,
// no file is requested, no letter of a plot smaller than 9 pixels.
package page
