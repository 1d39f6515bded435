#' Draw the texts that people are to code
#'
#' @description
#' A gold sample is a part of the texts that people code, so that it is known how often a model's
#' labels are right, and so that [estimate()] can correct what they get wrong. Both are possible
#' only if the probability is known with which each text came into the sample. `gold_sample()`
#' draws it and keeps these inclusion probabilities. `write_gold()` writes a CSV for a spreadsheet,
#' and `read_gold()` reads it back when people have coded it.
#'
#' `gold_size()` tells how many texts are needed.
#'
#' @section Which sample to draw:
#' * `"simple"`: all texts equally probable. Right for everything, and all that PPI needs.
#' * `"stratified"`: a fixed number from each stratum, which is a label if `by` names no columns.
#'   For rare labels (`allocation = "equal"`) and for comparing groups.
#' * `"uncertainty"`: the less sure the model is, the more probable; estimates become more precise
#'   where its confidence tells where it errs. `floor` is the share of the sample that is given out
#'   evenly all the same, so that no text has a tiny probability.
#' * A vector of probabilities, one for each text, that sum to `n`.
#'
#' Texts that were picked by hand have no probabilities, and nothing valid follows from them.
#'
#' @section The file:
#' It has the columns `id`, `text` and one for each coder, to be filled in with labels. It does not
#' tell what the model said (`blind`), is in a random order, so that those who do not come to the
#' end have coded a random part, and has a mark by which Excel knows UTF-8. Texts that a
#' spreadsheet would run as formulas get an apostrophe in front, which `read_gold()` takes away.
#' Of several labels a cell has all that apply, in any order, with semicolons between them, or the
#' word `none` (`(none)` if a label is called so): an empty cell is not coded yet.
#'
#' Beside the CSV lies `<path>.json` with the design; `read_gold()` needs that or the sample.
#'
#' @param data What [annotate_texts()] returned, or another data frame with a row for each text.
#' @param n How many texts to draw.
#' @param by Columns whose combinations are strata: names, or unquoted as in `c(party, year)`.
#' @param prob How to draw; see below. `NULL` stands for `"stratified"` if there is `by`, else
#'   `"simple"`.
#' @param text,label,id Columns of texts, of the model's labels and of identifiers. `NULL`: those of
#'   `data` if it knows them. For `id` that is a column called `id` in which no value is missing or
#'   there twice; numbers of rows are identifiers otherwise. By identifiers codes find their texts
#'   in data that were sorted, also where the column of texts was dropped.
#' @param confidence For `"uncertainty"`: a column, or a number for each text, of how sure the model
#'   is, from 0 to 1. `NULL`: the column `margin` of [annotate_texts()]; of several labels
#'   `2 * abs(p - 1/2)` of the one that is least sure.
#' @param floor For `"uncertainty"`: no text's probability is below `floor * n / nrow(data)`.
#' @param allocation For `"stratified"`: `"proportional"`, `"equal"`, or a named vector with the
#'   number for each stratum. At least 2 are drawn where a stratum has them.
#' @param names The labels that codes may be. `NULL`: those of `data`.
#' @param seed A whole number. `NULL`: a random one, which the result's `design` tells.
#' @param several Whether a text may have several labels, joined by `"; "`. `NULL`: as `data` knows,
#'   else not.
#' @param gold A `llamaherd_gold`.
#' @param path Of a CSV. For `read_gold()` also several, of a coder each, or a data frame with a
#'   column `id` and one for each coder. Texts of the sample without a row are told in a warning.
#' @param coders Names of the columns for codes. For `read_gold()` `NULL` stands for all further
#'   columns but those in which nothing is a label, which a warning tells; of a data frame the
#'   model's labels are left out, too.
#' @param blind Whether to leave out the model's label and the probability.
#' @param shuffle Whether to write in a random order.
#' @param bom Whether to write the mark by which Excel knows UTF-8.
#' @param overwrite Whether a file that is there already, and may have codes in it, may be lost.
#' @param delimiter What is between cells: `","`, `";"` or `"\t"`. Where numbers have a decimal
#'   comma Excel expects `";"`, and shows a file with `","` as one column. `read_gold()` knows all.
#' @returns `gold_sample()` and `read_gold()`: a `llamaherd_gold`, a list with `rows`, the rows of
#'   `data` that were drawn; `ids`, `texts`, `labels` and `probs` of these; `all_probs`, the
#'   inclusion probability of every row of `data`; `strata`; `names`; `codes`, a list with a
#'   character vector for each coder; `gold`, what most coders said; and `design`. As a data
#'   frame it has a row for each text: `id`, `text`, `model_label`, `inclusion_prob` and the coders'
#'   columns. It may be kept with [saveRDS()].
#'
#'   `write_gold()`: `path`, invisibly.
#' @references Särndal, Swensson, Wretman, *Model Assisted Survey Sampling*, 1992. Hartley, Rao,
#'   *Sampling with Unequal Probabilities and without Replacement*, 1962.
#' @seealso [estimate()], [gold_size()]
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
  several = NULL
) {
  error_call <- rlang::current_env()
  check_data(data, error_call)
  known <- coded_columns(data)
  by <- columns_named(rlang::enquo(by), data, "by", error_call)
  text <- one_column(rlang::enquo(text), data, "text", error_call) %||% known$text
  label <- one_column(rlang::enquo(label), data, "label", error_call) %||% known$label
  id <- one_column(rlang::enquo(id), data, "id", error_call)
  confidence <- column_or_values(rlang::enquo(confidence), data, "confidence", error_call)
  if (identical(prob, "uncertainty")) {
    confidence <- confidence %||% known$margin %||% known$prob
  }
  several <- if (is.null(several)) isTRUE(known$several) else check_flag(several)
  each <- if (several && identical(prob, "uncertainty")) known$each
  is_factor <- !is.null(label) && is.factor(data[[label]])
  uses <- c(text, label, id, by, each, if (is.character(confidence)) confidence)
  # Its own ids are taken if they are unique.
  uses <- c(uses, if (is.null(id) && length(uses) > 0) intersect("id", names(data)))
  if (length(uses) == 0) {
    must <- "the column of texts, which people are to read"
    hint <- paste("There are", paste(names(data), collapse = ", "))
    abort_argument("text", must, text, error_call, hint)
  }
  options <- list(
    by = if (!is.null(by)) as_py_list(by),
    prob = check_prob(prob, c("simple", "stratified", "uncertainty"), error_call),
    text = text,
    label = label,
    id = id,
    confidence = if (is.numeric(confidence)) as_py_numbers(confidence) else confidence,
    floor = check_number(floor),
    allocation = check_allocation(allocation, error_call),
    names = as_py_list(check_names_of(names %||% known$names, error_call)),
    seed = if (!is.null(seed)) as.double(check_whole(seed, min = 0, max = 2^53)),
    several = several,
    codebook = known$codebook,
    each = as_py_list(each),
    levels = if (is_factor) as_py_list(levels(data[[label]])),
    ordered = is_factor && is.ordered(data[[label]])
  )
  columns <- py_columns(data, uses)
  drawn <- new_gold(py_call("gold_draw", columns, check_whole(n, min = 1), options))
  document_event("gold_sample", \() {
    list(
      n_texts = nrow(data),
      n = length(drawn$rows),
      design = drawn$design,
      rows_hash = lines_sha256(drawn$rows)
    )
  })
  drawn
}

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
  delimiter = ","
) {
  error_call <- rlang::current_env()
  json <- check_gold(gold, error_call)
  path <- check_string(path)
  options <- list(
    coders = if (!is.null(coders)) as_py_list(check_text(coders)),
    blind = check_flag(blind),
    shuffle = check_flag(shuffle),
    bom = check_flag(bom),
    delimiter = check_choice(delimiter, c(",", ";", "\t")),
    overwrite = check_flag(overwrite)
  )
  py_call("gold_write", json, expand_path(path), options)
  document_event("write_gold", \() list(path = log_path(path), n = length(gold$ids)))
  invisible(path)
}

#' @rdname gold_sample
#' @export
read_gold <- function(path, gold = NULL, coders = NULL) {
  error_call <- rlang::current_env()
  json <- if (!is.null(gold)) check_gold(gold, error_call)
  coders <- if (!is.null(coders)) as_py_list(check_text(coders))
  if (is.data.frame(path)) {
    if (is.null(json)) {
      abort("Codes in a data frame need {.arg gold}, the sample.", "argument", error_call)
    }
    return(new_gold(py_call("gold_read", py_columns(path, names(path)), json, coders)))
  }
  paths <- vapply(check_text(path), expand_path, "", USE.NAMES = FALSE)
  read <- new_gold(py_call("gold_read", as_py_list(paths), json, coders))
  document_event("read_gold", \() {
    list(
      paths = lapply(paths, log_path),
      sha256 = lapply(paths, \(path) py_call("file_sha256", path)),
      n_coded = sum(!is.na(read$gold))
    )
  })
  read
}

#' How many texts people have to code
#'
#' @description
#' The size of a simple gold sample for a confidence interval of a wanted width, with people's codes
#' alone, and with a model's labels that are corrected by them.
#'
#' With \eqn{V} the variance that the draw has to average out and \eqn{N} texts in all,
#' \eqn{n = 1 / ((width^2 / z^2 - p (1 - p) / N) / V + 1 / N)}, without the subtraction for
#' `target = "texts"`. For codes alone \eqn{V = p (1 - p)}, with \eqn{p} the share; for DSL the
#' variance of code less label, \eqn{2 (1 - \kappa) p (1 - p)}; for PPI++
#' \eqn{(1 - \kappa^2) p (1 - p)}.
#'
#' @param width Half of the interval's width: 0.05 for plus or minus 5 percentage points.
#' @param share The share that is expected; 0.5 is the worst case. An accuracy is a share, too.
#' @param level Confidence level.
#' @param accuracy The share of texts where model and people are expected to agree on whether the
#'   label applies; or `kappa`, Cohen's kappa of both.
#' @param kappa See `accuracy`.
#' @param population How many texts there are; `NULL` for endlessly many.
#' @param target As in [estimate()]: the share in what these texts are a sample of
#'   (`"population"`), or among these `"texts"`, which takes fewer codes.
#' @returns A `llamaherd_gold_size`, a list with the numbers of texts `gold`, `dsl` and `ppi`
#'   (`NA` if neither `accuracy` nor `kappa` is given) and with `kappa`.
#' @seealso [gold_sample()]
#' @export
#' @examplesIf llamaherd::llamaherd_available()
#' gold_size(0.05)
#' gold_size(0.03, share = 0.2, accuracy = 0.9, population = 20000)
gold_size <- function(
  width,
  share = 0.5,
  level = 0.95,
  accuracy = NULL,
  kappa = NULL,
  population = NULL,
  target = c("population", "texts")
) {
  options <- list(
    share = check_number(share),
    level = check_number(level),
    accuracy = if (!is.null(accuracy)) check_number(accuracy),
    kappa = if (!is.null(kappa)) check_number(kappa),
    population = if (!is.null(population)) check_whole(population, min = 1),
    target = check_choice(target, c("population", "texts"))
  )
  found <- py_call("gold_size", check_number(width), options)
  structure(
    list(
      gold = found[["gold"]],
      dsl = found[["dsl"]] %||% NA_real_,
      ppi = found[["ppi"]] %||% NA_real_,
      kappa = found[["kappa"]] %||% NA_real_,
      line = found[["line"]]
    ),
    class = "llamaherd_gold_size"
  )
}

#' @export
print.llamaherd_gold_size <- function(x, ...) {
  writeLines(x$line)
  invisible(x)
}

# The sample with the rows of `data` in which its texts are.
joined_gold <- function(gold, data, label, text, error_call) {
  json <- check_gold(gold, error_call)
  uses <- c(label, text, gold_columns(gold, data))
  options <- list(label = label, text = text, n = nrow(data))
  columns <- py_columns(data, uses)
  rows <- py_call("gold_rows", columns, json, options, error_call = error_call)
  gold$rows <- as.integer(unlist(rows)) + 1L
  gold
}

# Columns of data by which the texts of a sample are found.
gold_columns <- function(gold, data) {
  intersect(unlist(gold$design[c("id", "text", "label")]), names(data))
}

new_gold <- function(value) {
  coders <- as_text(value[["coders"]])
  codes <- lapply(value[["codes"]], as_text)
  structure(
    list(
      rows = as.integer(unlist(value[["rows"]]) + 1),
      ids = as_text(value[["ids"]]),
      texts = as_text(value[["texts"]]),
      labels = as_text(value[["labels"]]),
      probs = as.double(unlist(value[["probs"]])),
      all_probs = as.double(unlist(value[["all_probs"]])),
      strata = as.integer(unlist(value[["strata"]]) + 1),
      names = as_text(value[["names"]]),
      codes = rlang::set_names(codes, coders),
      gold = as_text(value[["gold"]]),
      design = value[["design"]]
    ),
    json = value[["json"]],
    class = "llamaherd_gold"
  )
}

check_gold <- function(x, error_call, arg = "gold") {
  if (!inherits(x, "llamaherd_gold") || !is.character(attr(x, "json"))) {
    must <- "a <llamaherd_gold> made by gold_sample() or read_gold()"
    abort_argument(arg, must, x, error_call)
  }
  attr(x, "json")
}

check_prob <- function(x, choices, error_call) {
  if (is.null(x)) {
    return(NULL)
  }
  if (is.numeric(x)) {
    return(as_py_numbers(x))
  }
  check_choice(x, choices, "prob", error_call)
}

check_allocation <- function(x, error_call) {
  if (is.numeric(x) && !is.null(names(x))) {
    return(as.list(x))
  }
  check_choice(x, c("proportional", "equal"), "allocation", error_call)
}

check_names_of <- function(x, error_call) {
  if (is.null(x)) character() else check_text(x, "names", error_call)
}

#' @export
as.data.frame.llamaherd_gold <- function(x, ...) {
  columns <- list(
    id = x$ids,
    text = x$texts,
    model_label = x$labels,
    inclusion_prob = x$probs
  )
  if (all(is.na(x$texts))) {
    columns$text <- NULL
  }
  new_frame(c(columns, x$codes), length(x$ids))
}

#' @export
format.llamaherd_gold <- function(x, ...) {
  n_coded <- sum(!is.na(x$gold))
  n_coders <- length(x$codes)
  range <- format(range(x$probs), digits = 3, trim = TRUE)
  c(
    sprintf(
      "<llamaherd_gold> %d of %d texts, drawn %s",
      length(x$ids),
      length(x$all_probs),
      c(
        simple = "simply",
        stratified = "in strata",
        uncertainty = "by uncertainty",
        given = "by the probabilities given"
      )[[x$design$kind]]
    ),
    sprintf(
      "inclusion probabilities from %s to %s, seed %.0f",
      range[[1]],
      range[[2]],
      x$design$seed
    ),
    sprintf("%d coded, by %d coder%s", n_coded, n_coders, if (n_coders == 1) "" else "s")
  )
}

#' @export
print.llamaherd_gold <- function(x, ..., n = 6L) {
  writeLines(format(x, ...))
  print_rows(as.data.frame(x), n, getOption("width"), c("id", "text", names(x$codes)))
  invisible(x)
}
