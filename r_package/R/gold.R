#' Draw a gold-standard sample for human coding
#'
#' @description
#' A gold-standard sample is a probability sample of the texts that people code. The codes of the
#' sample show how often a model's labels are correct, and [estimate()] uses the codes to correct
#' estimates for the errors. To measure and to correct errors, the probability with which each text
#' was drawn (its inclusion probability) must be known. `gold_sample()` draws the sample and stores
#' the inclusion probabilities. `write_gold()` writes a CSV file for a spreadsheet program, and
#' `read_gold()` reads the coded file.
#'
#' `gold_size()` computes how many texts are needed.
#'
#' @section Sampling designs:
#' * `"simple"`: equal probabilities. This design is suitable for all purposes, and the only design
#'   for which PPI++ keeps its original form.
#' * `"stratified"`: a fixed number from each stratum; strata are the labels unless `by` names
#'   columns. Suitable for rare labels (with `allocation = "equal"`) and for comparisons of groups.
#' * `"uncertainty"`: higher probabilities for texts with less certain labels. Estimates are more
#'   precise if the model's errors are frequent where its confidence is low. `floor` is the share of
#'   the sample that is drawn with equal probabilities; no text then has a very small probability.
#' * `"weights"`: probabilities grow with survey weights, see the argument `weights`.
#' * A vector of probabilities, one per text, with sum `n`.
#'
#' Texts chosen by hand have no inclusion probabilities and allow no valid inference.
#'
#' @section Waves:
#' `gold_sample(data, n, after = gold)` draws `n` further texts from the texts that were not drawn
#' yet, and returns one sample of all waves, with the existing codes; `history` has a row per wave.
#' Waves of the same design (`"simple"`, or `"stratified"` by the same columns without numbers in
#' `allocation`) form one sample of this design, with the inclusion probabilities of the combined
#' sample. In all other cases the probabilities of a wave may depend on the codes of earlier waves.
#' Conditional on these codes, each wave gives an unbiased estimate; the estimates are averaged with
#' weights that depend on the sizes of waves (Des Raj 1956; Farquhar, Gal and Rainforth 2021).
#' `probs` then contains 1 / weight for each text. Decide the sizes of waves before you see codes.
#' `write_gold(uncoded = TRUE)` writes only the texts without a code, and `read_gold()` keeps the
#' codes of the other texts.
#'
#' @section The CSV file:
#' The columns are `id`, `text` and one column per coder, to be filled in with labels. The file
#' omits the model's labels (`blind`). The order of the texts is random, so that a coder who stops
#' early has coded a random part. The file begins with a byte order mark, by which Excel recognises
#' UTF-8. Identifiers and texts are written unchanged, so that they join with other data. With
#' `spreadsheet = TRUE`, cells that a spreadsheet program would evaluate as formulas (`=`, `+`, `-`,
#' `@`) are prefixed by an apostrophe, which `read_gold()` removes; use it if you open texts of
#' strangers in a spreadsheet. If texts may have several labels, a cell contains all labels that
#' apply, in any order, separated by semicolons. If no label applies, the cell contains the word
#' `none` (`(none)` if `none` is a label). An empty cell means that the text is not coded yet.
#'
#' The design is written to `<path>.json`; `read_gold()` needs this file or the sample.
#'
#' @param data Return value of [annotate_texts()], or another data frame with one row per text.
#' @param n Number of texts to draw.
#' @param by Columns whose combinations are strata: column names as strings, or unquoted as in
#'   `c(party, year)`.
#' @param prob Sampling design; see below. `NULL` uses `"stratified"` with `by` and `"simple"`
#'   otherwise; with `after` it uses the design of the earlier sample. If `prob` is a vector and
#'   `after` is given, only the probabilities of texts that were not drawn yet are used, scaled to
#'   sum to `n`.
#' @param text,label,id Columns of texts, of the model's labels and of identifiers. `NULL` uses the
#'   columns that `data` records; for other data frames `text` is a character column called `text`,
#'   if there is one, and `label` a column called `label`. For the argument `id`, `NULL` uses a
#'   column called `id` without missing or duplicated values, and row numbers otherwise; with
#'   `after`, the identifiers of the earlier sample. Codes are matched to texts by identifiers, even
#'   if `data` was sorted or its column of texts removed.
#' @param confidence For `"uncertainty"`: a column, or a number per text from 0 to 1, of the model's
#'   confidence. `NULL` uses the column `margin` of [annotate_texts()]; with several labels
#'   `2 * abs(p - 1/2)` of the least certain label.
#' @param floor For `"uncertainty"` and `"weights"`: the minimum probability of a text is
#'   `floor * n / nrow(data)`.
#' @param allocation For `"stratified"`: `"proportional"`, `"equal"`, or a named vector with the
#'   number for each stratum. At least 2 texts are drawn from each stratum with 2 texts or more.
#'   With other designs, setting `allocation` causes an error. Setting `confidence` or `floor`
#'   with a design that does not use it also causes an error.
#' @param names Labels that codes may have. `NULL` uses the labels of the codebook. For data without
#'   a codebook, `NULL` uses the labels in the column `label`. If each of these labels has a column
#'   `p_<label>` of probabilities, `NULL` also uses other labels with such a column.
#' @param seed A whole number. `NULL` uses a random seed, which `design` of the result reports.
#' @param several TRUE if a text may have several labels, joined by `"; "`. `NULL` uses the value
#'   that `data` records.
#' @param after A `llamaherd_gold` of earlier waves, with or without codes; see below.
#' @param weights For `"weights"`: a column, or a number per text, of survey weights.
#' @param gold A `llamaherd_gold`.
#' @param path Path of a CSV file. For `read_gold()` also several paths, one per coder, whose names,
#'   as in `c(anna = "p1.csv")`, are the names of the coders; or a data frame with a column `id` and
#'   one column per coder. Columns with the same name cause an error. A warning reports texts of the
#'   sample that have no row. Blank rows are ignored.
#' @param coders Names of the columns for codes. For `read_gold()` `NULL` uses all columns that are
#'   not columns of the sample. Columns that contain no label are left out, with a warning. In a
#'   data frame, the column of the model's labels is also excluded.
#' @param blind TRUE omits the model's label and the inclusion probability.
#' @param shuffle TRUE writes texts in random order.
#' @param bom TRUE writes a byte order mark, by which Excel recognises UTF-8.
#' @param overwrite TRUE replaces an existing file, which may contain codes.
#' @param uncoded TRUE writes only texts that nobody has coded yet.
#' @param spreadsheet TRUE prefixes cells that a spreadsheet program would evaluate as formulas.
#' @param delimiter Separator of cells: `","`, `";"` or `"\t"`. In locales with a decimal comma
#'   Excel expects `";"` and shows a file with `","` as one column. `read_gold()` recognises commas,
#'   semicolons and tabs.
#' @returns `gold_sample()` and `read_gold()`: a `llamaherd_gold`, a list:
#'
#'   * `rows`: indices of the drawn rows of `data`.
#'   * `ids`, `texts`, `labels`, `probs`, `strata`: identifiers, texts, model's labels, inclusion
#'     probabilities and numbers of the strata of the drawn rows.
#'   * `all_probs`: inclusion probability of every row of `data`.
#'   * `names`: labels that codes may have.
#'   * `codes`: a list with one character vector per coder; `gold`: the majority codes, on a tie the
#'     code of the first of the tied coders. With several labels, `""` means that no label applies;
#'     `none` is the word for it in tables.
#'   * `design`: how the sample was drawn.
#'   * `history`: a data frame with one row per wave: `wave`, `kind`, `n`, `N` (number of texts from
#'     which the wave was drawn), `seed` and `n_coded` (number of coded texts when the wave was
#'     drawn).
#'
#'   Converted to a data frame, a sample has one row per text: `id`, `text`, `model_label`,
#'   `inclusion_prob` and the coders' columns. If texts may have several labels, `"none"` (or
#'   `"(none)"`, if a label is called "none") means that no label applies, so that the codes survive
#'   [write.csv()] and [read.csv()]. You can store a sample with [saveRDS()]. Its elements cannot be
#'   changed: edit codes in `sheet <- as.data.frame(gold)`, and read them with
#'   `read_gold(sheet, gold)`.
#'
#'   `write_gold()`: `path`, invisibly.
#' @references Särndal, Swensson, Wretman, *Model Assisted Survey Sampling*, 1992. Hartley, Rao,
#'   *Sampling with Unequal Probabilities and without Replacement*, 1962. Des Raj, *Some Estimators
#'   in Sampling with Varying Probabilities without Replacement*, JASA 51, 1956. Farquhar, Gal,
#'   Rainforth, *On Statistical Bias In Active Learning*, ICLR 2021
#'   ([arXiv 2101.11665](https://arxiv.org/abs/2101.11665)). Zrnic, Candès, *Active Statistical
#'   Inference*, ICML 2024 ([arXiv 2403.03208](https://arxiv.org/abs/2403.03208)).
#' @seealso [estimate()], [gold_size()]
#' @concept spreadsheet
#' @concept Excel
#' @concept coding sheet
#' @concept inclusion probability
#' @export
#' @examplesIf llamaherd::llamaherd_available()
#' speeches <- data.frame(
#'   text = sprintf("Speech %d.", 1:500),
#'   label = rep(c("for", "for", "against", "neutral"), 125),
#'   party = rep(c("A", "B"), 250)
#' )
#' gold <- gold_sample(speeches, 40, by = label, text = text, label = label, seed = 1)
#' gold
#'
#' path <- tempfile(fileext = ".csv")
#' write_gold(gold, path, coders = c("anna", "ben"))
#' # ... two people fill in the columns anna and ben ...
#' read_gold(path, gold)
#'
#' # 20 more texts, of the same design.
#' gold_sample(speeches, 20, after = gold, seed = 2)$history
gold_sample <- function(
  data,
  n,
  by = NULL,
  prob = NULL,
  text = NULL,
  label = NULL,
  id = NULL,
  confidence = NULL,
  floor = 0.3,
  allocation = "proportional",
  names = NULL,
  seed = NULL,
  several = NULL,
  after = NULL,
  weights = NULL
) {
  data <- check_data(data)
  check_coded_rows(data, "data")
  known <- coded_columns(data)
  if (!is.null(after)) {
    check_gold(after, "after")
  }
  of_after <- Filter(\(name) name %in% names(data), after$design[c("text", "label")])
  known <- utils::modifyList(as.list(of_after), Filter(Negate(is.null), as.list(known)))
  by <- columns_named(rlang::enquo(by), data, "by")
  text <- one_column(rlang::enquo(text), data, "text") %||%
    known$text %||%
    if (is.character(data[["text"]]) && !inherits(data, "llamaherd_coded")) "text"
  label <- one_column(rlang::enquo(label), data, "label") %||%
    known$label %||%
    if (!all(is.na(data[["label"]])) && !inherits(data, "llamaherd_coded")) "label"
  id <- one_column(rlang::enquo(id), data, "id")
  confidence <- column_or_values(rlang::enquo(confidence), data, "confidence")
  weights <- column_or_values(rlang::enquo(weights), data, "weights")
  of_design <- if (isTRUE(after$design$several)) TRUE
  check_lost_record(data, label %||% "label", "data", several %||% of_design, "nominal")
  is_again <- is.null(prob) && is.null(by) && identical(after$design$kind, "uncertainty")
  is_uncertainty <- identical(prob, "uncertainty") || is_again
  if (is_uncertainty) {
    confidence <- confidence %||% known$margin %||% known$prob
  }
  several <- several_labels(several, data, after$design)
  probs <- if (several && is_uncertainty) known$each
  uses <- c(text, label, id, by, probs, if (is.character(confidence)) confidence)
  uses <- c(uses, if (is.character(weights)) weights)
  # Labels that the model never gave have columns of probabilities, too.
  uses <- c(uses, if (is.null(known$names)) columns_of_labels(label, data))
  if (!is.null(after)) {
    again <- setdiff(if (is.null(prob) && is.null(by)) unlist(after$design$by), "label")
    uses <- c(uses, gold_columns(after, data), intersect(again, names(data)))
  }
  # A column `id` is used if its values are unique.
  uses <- c(uses, if (is.null(id) && length(uses) > 0) intersect("id", names(data)))
  if (length(uses) == 0) {
    must <- "the column of texts, which people are to read"
    hint <- paste("There are", paste(names(data), collapse = ", "))
    abort_argument("text", must, text, hint = hint)
  }
  if (is.null(c(text, label, id))) {
    # Other columns show later whether the rows are in the order of the draw.
    uses <- union(uses, names(data)[vapply(data, is.atomic, NA)])
  }
  arguments <- py_arguments(
    c("n", "floor", "seed"),
    data = frame_for_python(
      data,
      uses,
      label,
      known$codebook,
      names = as_py_list(as_text(known$names))
    ),
    by = if (!is.null(by)) as_py_list(by),
    prob = check_prob(prob),
    text = text,
    label = label,
    id = id,
    confidence = if (is.numeric(confidence)) as_py_numbers(confidence) else confidence,
    allocation = check_allocation(allocation),
    names = as_py_list(check_names_of(names)),
    several = several,
    each = as_py_list(probs),
    after = if (!is.null(after)) gold_for_python(after, "after"),
    weights = if (is.numeric(weights)) as_py_numbers(weights) else weights
  )
  drawn <- call_python("gold_draw", arguments)
  document_event(
    "gold_sample",
    n_texts = nrow(data),
    n = length(drawn$rows),
    design = drawn$design,
    rows_hash = lines_sha256(drawn$rows)
  )
  drawn
}

# Returns the columns of data that identify the texts of a sample.
gold_columns <- function(gold, data) {
  known <- c(unlist(gold$design[c("id", "text", "label")]), names(gold$design$columns))
  there <- intersect(known, names(data))
  c(there, raw_columns(data, gold$design$label))
}

# Returns the JSON of a sample.
check_gold <- function(x, arg = "gold") {
  json <- check_class(x, "llamaherd_gold", arg)$json
  if (!is.character(json)) {
    abort_argument(arg, "a <llamaherd_gold> with all of its elements", x)
  }
  json
}

gold_for_python <- function(x, arg = "gold") {
  tagged("gold", content = check_gold(x, arg))
}

check_prob <- function(x) if (is.numeric(x)) as_py_numbers(x) else py_value(x, "prob")

check_allocation <- function(x) {
  if (is.numeric(x) && !is.null(names(x))) as.list(x) else py_value(x, "allocation")
}

check_names_of <- function(x) {
  if (is.null(x)) character() else check_text(label_set(x), "names")
}

# Names of the columns with probabilities of labels, as `annotate_texts()` names
# them: "p_<label>", with the prefix of the column "label".
columns_of_labels <- function(label, data) {
  if (is.null(label)) {
    return(NULL)
  }
  start <- if (endsWith(label, "label")) paste0(sub("label$", "", label), "p_") else "p_"
  names(data)[startsWith(names(data), start)]
}

# The class llamaherd_gold: a gold sample, as a data frame and in print.

#' @export
as.data.frame.llamaherd_gold <- function(x, ...) {
  # Programs read an empty cell of a CSV file as a missing code. An object that an older version
  # stored has no `none`.
  several <- isTRUE(x$design$several)
  codes_text <- \(codes) {
    if (several) replace(codes, codes %in% "", x$none %||% "none") else codes
  }
  columns <- list(
    id = x$ids,
    text = x$texts,
    model_label = codes_text(x$labels),
    inclusion_prob = x$probs
  )
  if (all(is.na(x$texts))) {
    columns$text <- NULL
  }
  columns$part <- x$parts
  new_frame(c(columns, lapply(x$codes, codes_text)), length(x$ids))
}

#' @export
print.llamaherd_gold <- function(x, ..., n = 6L) {
  show_page(format(x, ...))
  frame <- as.data.frame(x)
  print_rows(frame, n, getOption("width"), c("id", "text", names(x$codes)))
  invisible(x)
}

# Sheets that people fill in: write_gold() and read_gold().

#' @rdname gold_sample
#' @export
write_gold <- function(
  gold,
  path,
  coders = NULL,
  blind = TRUE,
  shuffle = TRUE,
  bom = TRUE,
  overwrite = FALSE,
  delimiter = ",",
  uncoded = FALSE,
  spreadsheet = FALSE
) {
  sample <- gold_for_python(gold)
  flags <- c("blind", "shuffle", "bom", "overwrite", "uncoded", "spreadsheet")
  options <- py_arguments(flags, "path", "delimiter", "coders")
  py_call("write_gold", sample, !!!options)
  document_event("write_gold", path = log_path(path), n = length(gold$ids))
  invisible(path)
}

#' @rdname gold_sample
#' @export
read_gold <- function(path, gold = NULL, coders = NULL) {
  check_given(path)
  sample <- if (!is.null(gold)) gold_for_python(gold)
  coders <- py_values(coders)
  if (is.data.frame(path)) {
    if (is.null(sample)) {
      abort("Codes in a data frame need {.arg gold}, the sample.")
    }
    names <- as_py_list(as_utf8(names(path)))
    frame <- tagged("frame", content = Map(as_codes, as.list(path), names(path)))
    return(py_call("gold_read", frame, sample, coders, names))
  }
  if (length(path) == 0) {
    abort_argument("path", "paths of CSV files, or a data frame", path)
  }
  names <- as_py_list(as_utf8(rlang::names2(path)))
  paths <- vapply(check_text(path), expand_path, "", USE.NAMES = FALSE)
  read <- py_call("gold_read", as_py_list(paths), sample, coders, names)
  document_event(
    "read_gold",
    paths = lapply(paths, log_path),
    sha256 = lapply(paths, \(path) py_call("file_sha256", path)),
    n_coded = sum(!is.na(read$gold))
  )
  read
}
