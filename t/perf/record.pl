#!/usr/bin/perl
# Adds one measurement to the run's samples.jsonl (a JSON object a line):
#
#   record.pl part=matrix what=status peer=none size=100k unit=s [KEY=VALUE...] <numbers
#   record.pl ... from=FILE     the times of a hyperfine --export-json file
#
# Numbers stand on stdin, apart by white space. $PERF_OUT names the directory of the run.

use strict;
use warnings;
use JSON::PP;

my %line = map { /^(\w+)=(.*)$/s ? ($1, $2) : die "record.pl: what is '$_'?\n" } @ARGV;
my $from = delete $line{from};
if (defined $from) {
	local $/;
	open my $in, '<', $from or die "record.pl: $from: $!\n";
	my $read = decode_json(<$in>);
	$line{samples} = [ map { @{ $_->{times} } } @{ $read->{results} } ];
	# All that hyperfine said is kept as well, one turn a line.
	open my $raw, '>>', "$ENV{PERF_OUT}/raw/$line{part}.jsonl" or die "record.pl: $!\n";
	my %kept = (%line, hyperfine => $read->{results});
	delete $kept{samples};
	print $raw JSON::PP->new->canonical->encode(\%kept), "\n";
} else {
	local $/;
	my $text = <STDIN>;
	$line{samples} = [ map { $_ + 0 } split ' ', defined $text ? $text : '' ];
}
@{ $line{samples} } or die "record.pl: no numbers for @ARGV\n";
open my $out, '>>', "$ENV{PERF_OUT}/samples.jsonl" or die "record.pl: $!\n";
print $out JSON::PP->new->canonical->encode(\%line), "\n";
