#' A hundred short news texts
#'
#' Made up for this package, to try it out, by the name and in the form of the data set in
#' localLLM's tutorials. It is not AG News and nothing of it is from there: no text tells of a real
#' event or person, and what a model makes of them tells nothing about how it does on AG News.
#'
#' @format A data frame with 100 rows, 25 of each class, and columns of text:
#' * `class`: `"World"`, `"Sports"`, `"Business"` or `"Sci/Tech"`.
#' * `title`: a headline.
#' * `description`: a sentence.
#' @examples
#' data("ag_news_sample", package = "llamaherd")
#' table(ag_news_sample$class)
#' ag_news_sample[c(1, 26, 51, 76), ]
"ag_news_sample"
