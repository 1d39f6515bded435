#' Create, write and read a codebook
#'
#' @description
#' A codebook describes in words what to label in each text. A codebook contains the labels and
#' their definitions, and coded examples. [annotate_texts()] labels a column of texts by the
#' codebook; [prompt_preview()] shows the prompt.
#'
#' `write_codebook()` writes a codebook to a YAML file that people can edit and compare.
#' `read_codebook()` reads such a file. All values in the file are text: a label `no` is not FALSE.
#'
#' @param question The question or instruction for the model, without a placeholder for the text:
#'   each text is added after the question.
#' @param labels Character vector of labels, or definitions named by labels: `c(negative =
#'   "Complains or attacks.", neutral = "")`. For a factor, its levels are the labels; an ordered
#'   factor sets `type` to `"ordinal"`. TRUE and FALSE become the labels `"TRUE"` and `"FALSE"`,
#'   numbers such as 0 and 1 become `"0"` and `"1"`; all functions of this package with labels
#'   follow this rule. The column of labels is then a factor, and `as.logical()` converts it.
#'   [number_scale()] describes a scale of numbers and sets `type` to `"scale"`.
#' @param type `"label"`: exactly one label per text. `"ordinal"`: one label of an ordered scale,
#'   from the lowest to the highest. `"scale"`: one number of a [number_scale()]. `"multiple"`: any
#'   number of labels. `"fields"`: data that follow `schema`; the default with a schema. `"spans"`:
#'   passages of the text, each with a label, see [coded_spans()].
#' @param schema For `"fields"`: a schema, see [generate_parallel()] and [type_object()].
#' @param examples Coded examples: a data frame with the columns `text`, `label` and optionally
#'   `reason`, which may be NA. With several labels per text, `label` is a list column of character
#'   vectors. With fields, it is a list column of named lists. With spans, it is a list column of
#'   data frames with the columns `quote` (words of the text) and `label`.
#' @param text_role,answer_role Words that introduce a text and an answer in the prompt. NULL uses
#'   `"Text"` and `"Label"`, in the language of the prompt.
#' @param language Language of the prompt's fixed words and of the texts. The prompt mentions the
#'   language. One of `"en"`, `"de"`, `"fr"` and `"es"`, or the name of any other language; for
#'   another language, `words` must contain all fixed words. NULL uses English words and does not
#'   mention a language.
#' @param words Replacements for fixed words of the prompt, such as "Labels:": a named character
#'   vector with names among `text`, `answer`, `reason`, `labels`, `one`, `ordinal`, `several`,
#'   `fields`, `yes`, `no`, `told`, `number`, `numbers`, `scale`, `quote`.
#' @param system Text of a system message; without `chat` it begins the prompt.
#' @param max_spans For `"spans"`: maximum number of passages per text. NULL uses 10.
#' @param quote For `"spans"`: length of a passage, made by [type_quote()]. NULL allows 1 to 60
#'   words.
#' @param ... Must be empty. A misspelt argument causes an error whose message names the most
#'   similar argument.
#' @returns `codebook()` and `read_codebook()`: a `llamaherd_codebook`, which prints as a page: a
#'   list with these elements:
#'
#'   * `question` and `type`: as in the arguments.
#'   * `labels`: definitions, named by labels.
#'   * `hash`: SHA-256 of the content.
#'   * `measured`: scale of measurement, `"nominal"`, `"ordinal"` or `"interval"`.
#'   * `is_numeric`: TRUE if the labels are ordered numbers, so that coded columns are numeric.
#'   * `content`: the whole codebook as JSON.
#'
#'   `write_codebook()`: its argument `codebook`, invisibly.
#' @seealso [annotate_texts()], [prompt_preview()], [robustness()]
#' @export
#' @examplesIf llamaherd::llamaherd_available()
#' tone <- codebook(
#'   "What is the tone of the text?",
#'   labels = c(
#'     negative = "Complains, attacks or regrets.",
#'     neutral = "Reports without a judgement.",
#'     positive = "Praises or enjoys."
#'   ),
#'   type = "ordinal",
#'   examples = data.frame(
#'     text = c("The meeting starts at nine.", "What a wonderful day!"),
#'     label = c("neutral", "positive"),
#'     reason = c(NA, "It enjoys the day.")
#'   )
#' )
#' tone
#' path <- tempfile(fileext = ".yaml")
#' write_codebook(tone, path)
#' identical(read_codebook(path), tone)
codebook <- function(
  question,
  labels = NULL,
  type = NULL,
  schema = NULL,
  examples = NULL,
  text_role = NULL,
  answer_role = NULL,
  language = NULL,
  words = NULL,
  system = NULL,
  max_spans = NULL,
  quote = NULL,
  ...
) {
  error_call <- rlang::current_env()
  check_dots(list(...), character())
  check_given(
    question,
    "The question about each text, such as \"Is it for or against?\"."
  )
  question <- check_string(question)
  warn_placeholders_of(question, "text", error_call)
  type <- type %||%
    if (!is.null(schema)) {
      "fields"
    } else if (inherits(labels, "llamaherd_scale")) {
      "scale"
    } else if (is.ordered(labels)) {
      "ordinal"
    } else {
      "label"
    }
  kinds <- c("label", "ordinal", "scale", "multiple", "fields", "spans")
  type <- check_choice(type, kinds)
  if (inherits(labels, "llamaherd_scale") && type != "scale") {
    hint <- "`labels` is a number_scale(); NULL chooses the type."
    abort_argument("type", "\"scale\"", type, error_call, hint)
  }
  scale <- if (type == "scale") check_scale_of(labels, error_call)
  if (is.null(labels) && type != "fields") {
    must <- "a character vector of labels, or of definitions with labels as names"
    abort_argument("labels", must, labels, error_call)
  }
  content <- list(
    question = value_json(question, "question", error_call),
    labels = if (type != "scale") labels_json(labels, error_call),
    scale = scale,
    type = value_json(type, "type", error_call),
    schema = if (!is.null(schema)) schema_text(schema, "schema", error_call),
    examples = examples_json(examples, type, error_call),
    text_role = string_json(text_role, "text_role", error_call),
    answer_role = string_json(answer_role, "answer_role", error_call),
    language = string_json(language, "language", error_call),
    words = words_json(words, error_call),
    system = string_json(system, "system", error_call),
    max_spans = if (!is.null(max_spans)) {
      value_json(py_value(max_spans), "max_spans", error_call)
    },
    quote = if (!is.null(quote)) {
      value_json(check_quote_type(quote, error_call), "quote", error_call)
    }
  )
  json <- json_object(Filter(Negate(is.null), content))
  new_codebook(py_call("codebook_make", json, error_call = error_call))
}

#' @rdname codebook
#' @param path Path of a YAML file; `~` is expanded.
#' @export
read_codebook <- function(path) {
  error_call <- rlang::current_env()
  path <- expand_path(check_string(path))
  if (!file_exists(path) || dir_exists(path)) {
    abort_argument("path", "an existing file", path, error_call)
  }
  new_codebook(py_call("codebook_read", path, error_call = error_call))
}

#' @rdname codebook
#' @param codebook A codebook.
#' @param overwrite TRUE replaces an existing file, which people may have edited.
#' @export
write_codebook <- function(codebook, path, overwrite = FALSE) {
  error_call <- rlang::current_env()
  check_codebook(codebook)
  path <- py_path(path)
  overwrite <- py_value(overwrite)
  py_call("codebook_write", codebook$content, path, overwrite, error_call = error_call)
  invisible(codebook)
}

new_codebook <- function(described) {
  content <- jsonlite::parse_json(described[["json"]])
  labels <- as_text(described[["names"]])
  fixed(
    list(
      question = content$question,
      labels = stats::setNames(as_text(described[["definitions"]]), labels),
      type = described[["type"]],
      schema = described[["schema"]],
      hash = described[["hash"]],
      measured = described[["measured"]],
      is_numeric = described[["is_numeric"]],
      content = described[["json"]],
      page = as_text(described[["page"]])
    ),
    class = "llamaherd_codebook"
  )
}

check_codebook <- function(
  x,
  arg = rlang::caller_arg(x),
  error_call = rlang::caller_env()
) {
  check_given(x, arg = arg, error_call = error_call)
  if (!inherits(x, "llamaherd_codebook")) {
    abort_argument(arg, "a <llamaherd_codebook> made by codebook()", x, error_call)
  }
  x
}

#' @export
format.llamaherd_codebook <- function(x, ...) {
  c(sub("^<Codebook>", "<llamaherd_codebook>", x$page[[1]]), x$page[-1])
}

check_quote_type <- function(x, error_call) {
  if (!inherits(x, "llamaherd_type") || x$kind != "quote") {
    abort_argument("quote", "a type from type_quote()", x, error_call)
  }
  x$rule
}

# ---- converting parts of a codebook to JSON
# -----------------------------------------------------------

string_json <- function(x, arg, error_call) {
  if (is.null(x)) {
    return(NULL)
  }
  value_json(check_string(x, arg, error_call = error_call), arg, error_call)
}

# Returns definitions by label; a label without a name has no definition.
labels_json <- function(x, error_call) {
  if (is.null(x)) {
    return(NULL)
  }
  x <- label_set(x)
  if (!is.character(x)) {
    must <- "a character vector of labels, or of definitions with labels as names"
    hint <- if (is.data.frame(x)) {
      "For a data frame: setNames(x$definition, x$label), with the names of its columns."
    } else if (is.list(x)) {
      "unlist() converts a list to such a vector."
    } else {
      "as.character() makes labels of values."
    }
    abort_argument("labels", must, x, error_call, hint)
  }
  texts <- check_text(x, "labels", error_call)
  given <- as_utf8(rlang::names2(x))
  is_named <- nzchar(given)
  names <- ifelse(is_named, given, texts)
  if (anyNA(names) || anyDuplicated(names)) {
    abort_argument("labels", "different texts", x, error_call)
  }
  definitions <- as.list(ifelse(is_named, texts, ""))
  json_object(lapply(
    stats::setNames(definitions, names),
    value_json,
    "labels",
    error_call
  ))
}

words_json <- function(x, error_call) {
  if (is.null(x)) {
    return(NULL)
  }
  if (!is.character(x) || is.null(names(x))) {
    abort_argument("words", "a named character vector", x, error_call)
  }
  words <- as.list(check_text(x, "words", error_call))
  json_object(lapply(
    stats::setNames(words, names(x)),
    value_json,
    "words",
    error_call
  ))
}

examples_json <- function(x, type, error_call) {
  if (is.null(x)) {
    return(NULL)
  }
  fits <- is.data.frame(x) && all(c("text", "label") %in% names(x))
  extra <- setdiff(names(x), c("text", "label", "reason"))
  if (!fits || length(extra) > 0) {
    must <- "a data frame with columns `text`, `label` and perhaps `reason`"
    meant <- if (length(extra) > 0) closest(extra[[1]], c("text", "label", "reason"))
    hint <- if (!is.null(meant)) {
      sprintf("It has a column `%s`; did you mean `%s`?", extra[[1]], meant)
    }
    abort_argument("examples", must, x, error_call, hint)
  }
  texts <- check_text(as_plain(x[["text"]]), "examples$text", error_call)
  labels <- x[["label"]]
  if (!is.list(labels)) {
    labels <- as_plain(label_values(labels))
    labels <- as.list(check_text(labels, "examples$label", error_call))
  } else if (type == "multiple") {
    labels <- lapply(labels, label_values)
  }
  reasons <- as_utf8(x[["reason"]] %||% rep(NA_character_, nrow(x)))
  one <- function(text, label, reason) {
    # R has no scalars, so only the codebook's `type` shows whether one label is a single label or a
    # list of length 1.
    label <- if (type == "multiple") as.list(as_plain(label)) else label
    if (type == "spans" && is.data.frame(label)) {
      rows <- lapply(as.list(label), \(x) as.list(as_plain(x)))
      label <- lapply(seq_len(nrow(label)), \(i) lapply(rows, `[[`, i))
    } else {
      label <- unname_unless(label, type == "fields")
    }
    parts <- list(text = text, label = label)
    if (!is.na(reason)) {
      parts$reason <- reason
    }
    value_json(parts, "examples", error_call)
  }
  json_array(Map(one, texts, labels, reasons))
}

unname_unless <- function(x, keep) if (keep) x else unname(x)
