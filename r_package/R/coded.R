# The class llamaherd_coded: any data frame with columns that annotate_texts() has added, and
# the attribute `llamaherd`, which says how they came about. It stays as long as the columns of
# texts and labels do; without them what is left is the data frame alone.

as_coded <- function(data, coding) {
  if (!all(coding$needs %in% names(data))) {
    return(data)
  }
  coding$probs <- coding$probs[coding$probs %in% names(data)]
  coding$columns <- coding$columns[coding$columns %in% names(data)]
  attr(data, "llamaherd") <- coding
  class(data) <- c("llamaherd_coded", setdiff(class(data), "llamaherd_coded"))
  data
}

# The data frame alone, of the class that it had.
without_coding <- function(x) {
  attr(x, "llamaherd") <- NULL
  class(x) <- setdiff(class(x), "llamaherd_coded")
  x
}

#' @export
`[.llamaherd_coded` <- function(x, ...) {
  part <- without_coding(x)[...]
  if (is.data.frame(part)) as_coded(part, attr(x, "llamaherd")) else part
}

#' @export
rbind.llamaherd_coded <- function(...) {
  frames <- lapply(list(...), \(x) {
    if (inherits(x, "llamaherd_coded")) without_coding(x) else x
  })
  do.call(rbind, frames)
}

#' @exportS3Method dplyr::dplyr_reconstruct
dplyr_reconstruct.llamaherd_coded <- function(data, template) {
  plain <- if (inherits(data, "llamaherd_coded")) without_coding(data) else data
  made <- dplyr::dplyr_reconstruct(plain, without_coding(template))
  as_coded(made, attr(template, "llamaherd"))
}

#' @exportS3Method dplyr::group_by
group_by.llamaherd_coded <- function(.data, ...) {
  as_coded(dplyr::group_by(without_coding(.data), ...), attr(.data, "llamaherd"))
}

#' @exportS3Method dplyr::ungroup
ungroup.llamaherd_coded <- function(x, ...) {
  as_coded(dplyr::ungroup(without_coding(x), ...), attr(x, "llamaherd"))
}

#' @exportS3Method dplyr::summarise
summarise.llamaherd_coded <- function(.data, ...) {
  dplyr::summarise(without_coding(.data), ...)
}

#' @exportS3Method tibble::as_tibble
as_tibble.llamaherd_coded <- function(x, ...) {
  tibble::as_tibble(without_coding(x), ...)
}

#' @export
as.data.frame.llamaherd_coded <- function(x, ...) {
  as.data.frame(without_coding(x), ...)
}

#' @export
print.llamaherd_coded <- function(x, ...) {
  coding <- attr(x, "llamaherd")
  label <- coding$label
  counts <- ""
  if (length(label) == 1 && is.factor(x[[label]])) {
    n <- table(x[[label]])
    shown <- utils::head(n[n > 0], 6)
    counts <- paste0(": ", paste(names(shown), shown, collapse = ", "))
  }
  cat(sprintf("<llamaherd_coded> %d texts%s\n", nrow(x), counts))
  print(without_coding(x), ...)
  invisible(x)
}
