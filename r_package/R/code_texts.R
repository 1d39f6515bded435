#' Code texts in a browser
#'
#' @description
#' `code_texts()` opens a page in the browser on which people code texts by hand, with the mouse or
#' the keyboard. The page shows one text after the other, together with the labels of the
#' codebook and their definitions. The page needs no model, and coders see no label of a
#' model. Every code is stored in a file immediately, so no code is lost if R, the browser
#' or the computer stops; run the same call again to continue. The call ends with Ctrl-C
#' (or Esc, or the stop button), or with the button "End" on the page that shows the
#' agreement. The call returns the codes.
#'
#' Several people can code at the same time. Each coder uses their own browser and link; the call
#' prints these links. Only the first link, which is yours, shows the progress and the agreement of
#' the coders. While the page is open, R is busy: for a coding of several days use `llamaherd code`
#' in a terminal, with the CSV file of [write_gold()].
#'
#' @section Other computers:
#' By default only this computer can reach the page. With `host = "0.0.0.0"` other computers of the
#' network can reach the page, too, and every coder needs the key in their link. The connection is
#' not encrypted: open the page only in a network that you trust, or through SSH or a web server
#' with HTTPS.
#'
#' @param data A `llamaherd_gold` from [gold_sample()], or a data frame with a column of texts.
#' @param codebook A [codebook()] of any type. `NULL` uses the labels of the sample, without
#'   definitions.
#' @param coders Names of the coders who code all texts. `NULL` uses the coders of the sample, or
#'   one coder called `"code"`. Each coder gets the texts in a different order.
#' @param tie_coder Name of another coder, who codes the texts on which the others disagree.
#' @param path Path of the SQLite file that stores the codes. `NULL` uses a file in the working
#'   directory whose name depends on the texts.
#' @param ... Must be empty: all further arguments must be named.
#' @param text,id If `data` is a data frame: names of the columns that contain the texts and the
#'   identifiers, as strings or unquoted. If `id` is missing, the column called `id` is used, or
#'   else row numbers.
#' @param seed Seed of the random orders of the texts.
#' @param host Network address on which the server accepts connections.
#' @param port Port of the server. 0 uses any free port.
#' @param allowed_hosts Further host names that browsers may use in the address of the page.
#' @param keys TRUE requires a key also from coders on this computer.
#' @param browser TRUE opens a browser: with the coder's page if there is one coder, and otherwise
#'   with the page that shows the agreement.
#' @returns A `llamaherd_gold` with the codes. If `data` is a data frame: this data frame, with its
#'   rows in the same order and a character column for each coder; NA where a coder has no code.
#'   With a codebook of passages, a `llamaherd_spans`, like the return value of [read_spans()]. With
#'   a codebook of fields, a list with a `llamaherd_gold` for each field, named by the fields;
#'   [validate()] compares each of these with the column of its field. If `data` is a data frame:
#'   this data frame with a character column for each field and coder, such as `topic.anna`.
#'
#'   In all cases the attribute `notes`, which `attr(result, "notes")` returns, is a data frame of
#'   the coders' notes with the columns `coder`, `id` (identifier of the text) and `note`.
#' @seealso [gold_sample()], [validate()], [agreement()]
#' @concept browser
#' @export
#' @examples
#' \dontrun{
#' speeches <- data.frame(text = sprintf("Speech %d.", 1:500))
#' speeches$label <- rep(c("for", "against"), 250)
#' gold <- gold_sample(speeches, 40, text = text, label = label, seed = 1)
#' labels <- c(`for` = "Supports it.", against = "Opposes it.")
#' tone <- codebook("Is the speech for or against?", labels)
#' gold <- code_texts(gold, tone, coders = c("anna", "ben"))
#' }
code_texts <- function(
  data,
  codebook = NULL,
  coders = NULL,
  tie_coder = NULL,
  path = NULL,
  ...,
  text = "text",
  id = NULL,
  seed = 1,
  host = "127.0.0.1",
  port = 8090,
  allowed_hosts = NULL,
  keys = FALSE,
  browser = interactive()
) {
  check_given(data)
  check_dots(rlang::enquos(...))
  is_frame <- is.data.frame(data)
  if (!is_frame) {
    texts <- gold_for_python(data, "data")
    text <- "text"
    id <- NULL
  } else {
    text <- one_column(rlang::enquo(text), data, "text")
    id <- one_column(rlang::enquo(id), data, "id")
    texts <- frame_for_python(data, c(text, id %||% intersect("id", names(data))))
  }
  options <- py_arguments(
    c("tie_coder", "seed", "host", "port", "keys", "coders", "path"),
    text = text,
    id = id,
    allowed_hosts = as_py_list(if (!is.null(allowed_hosts)) check_text(allowed_hosts))
  )
  book <- if (!is.null(codebook)) as_python(check_class(codebook, "llamaherd_codebook"))
  browser <- check_flag(browser)
  as_codes <- function(coded) {
    result <- coded$codes
    if (is.null(result)) {
      result <- data
      result[names(coded$columns)] <- coded$columns
    }
    structure(result, notes = coded$notes)
  }
  run <- run_in_slices(
    py_call("code_start", texts, book, options),
    bar = new_bar(interactive()),
    as_value = as_codes,
    begun = function(started) {
      writeLines(as_text(started[["lines"]]))
      if (browser) {
        utils::browseURL(started[["link"]])
      }
    }
  )
  as_codes(run$value)
}
